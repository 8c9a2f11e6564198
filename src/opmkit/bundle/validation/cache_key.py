"""What a cached result depends on: the installed code that validates, and the state of a directory.

The commands that only print a cached result import this module, so it imports little.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit._version import __version__
from opmkit.bundle.validation.operator_directory import CI_FILE, REPOSITORY_CONFIG
from opmkit.core.cache import code_digest, tree_state

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CACHE = "validation"
"""Name of the cache of results in the embedded image store."""
CATEGORIES_VARIABLE = "OPERATOR_BUNDLE_CATEGORIES"
"""Environment variable with the path of a file of categories, which replace the default ones."""
MAX_ENTRIES = 10_000
"""Maximum number of files and directories of a bundle."""
CEL_DISTRIBUTION = "cel-expr-python"
"""Optional dependency that compiles CEL, in the extra ``cel``: larger than all others, without wheels for musl."""
_CEL_MODULE = "cel_expr_python"
ENTRY_POINTS = "opmkit.rules"
"""Group of the entry points, each of which names a module with rules."""


@cache
def code_versions() -> tuple[str, ...]:
    """Return the version and a digest of opmkit's code, and the version of the CEL library."""
    return (__version__, code_digest("opmkit.bundle", "opmkit.documents"), compiler_version())


def compiler_version() -> str:
    """Return the name and version of the CEL library, or "" if it is not installed."""
    spec = find_spec(_CEL_MODULE)
    sites = [Path(location).parent for location in (spec and spec.submodule_search_locations) or ()]
    names = [path.name for site in sites for path in site.glob(f"{_CEL_MODULE}-*.dist-info")]
    return names[0] if names else distribution_version() if spec else ""


def distribution_version() -> str:
    """Return the version of the CEL library according to its metadata, or "" without it."""
    from importlib import metadata  # slow to import: email

    try:
        return metadata.version(CEL_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


@cache
def extensions() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed modules with rules."""
    if not any(map(_may_have_extensions, sys.path)):
        return ()
    from importlib.metadata import entry_points  # slow to import: email

    return tuple(sorted(entry_points(group=ENTRY_POINTS)))


def extension_versions() -> list[str]:
    """Return names and versions of the distributions with rules, such as ``acme-rules 1.0``."""
    return sorted(f"{entry.dist.name} {entry.dist.version}" for entry in extensions() if entry.dist)


def _may_have_extensions(location: str) -> bool:
    """Return whether an entry of ``sys.path`` has a distribution with rules; archives and eggs may have one."""
    try:
        names = os.listdir(location or ".")  # noqa: PTH208 - faster than pathlib
    except FileNotFoundError:
        return False
    except OSError:  # among others of an archive
        return True
    return "EGG-INFO" in names or any(
        _mentions_extensions(f"{location or '.'}/{name}/entry_points.txt") for name in names if name.endswith("-info")
    )


def _mentions_extensions(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - every short command reads all of them
            return ENTRY_POINTS.encode() in file.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True


def directory_state(root: str, *, operator: bool) -> str | None:
    """Return a digest of the metadata of all that `read_files` reads for a directory, see `tree_state`.

    Args:
        root: The directory, without symbolic links.
        operator: Whether it is the directory of an operator.
    """
    config = f"{root}/{REPOSITORY_CONFIG}" if operator else f"{os.path.dirname(root)}/{CI_FILE}"  # noqa: PTH120 - many
    return tree_state(root, (config, f"{config.removesuffix('yaml')}yml"), MAX_ENTRIES)
