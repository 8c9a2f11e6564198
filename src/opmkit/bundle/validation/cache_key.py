"""The installed code that a cached result depends on: opmkit's own, and that of other distributions with rules.

The commands that only print a cached result import this module, so it imports little.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opmkit._version import __version__
from opmkit.core.cache import code_digest, installed_distributions, tree_digest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import Distribution, EntryPoint

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
_DISTRIBUTION = "opmkit"
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9._-]*")


@cache
def code_versions() -> tuple[str, ...]:
    """Return the version and a digest of the code that validates, and whether the CEL library can be found."""
    code = code_digest("opmkit.bundle", "opmkit.documents", "opmkit.imagetools", "opmkit.core")
    return (__version__, code, str(find_spec(_CEL_MODULE) is not None))


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
    if not any(map(_may_have_extensions, installed_distributions())):
        return ()
    from importlib.metadata import entry_points  # slow to import: email

    return tuple(sorted(entry_points(group=ENTRY_POINTS)))


def extension_digests() -> list[str] | None:
    """Return the names of the modules with rules, each with a digest of its code; None if it is unknown which files.

    The code of a module is that of its distribution, of those that this requires in addition to opmkit, and of its own
    package. It is unknown if it is not in files, or is installed in editable form: then it may use any file of
    the source tree.
    """
    try:
        return [f"{entry.name} {entry.value} {tree_digest(_code_files(entry))}" for entry in extensions()]
    except (OSError, ImportError, ValueError):
        return None


def _code_files(entry: EntryPoint) -> list[str]:
    spec = find_spec(entry.module.partition(".")[0])
    if spec is None or not (spec.submodule_search_locations or spec.has_location):
        raise ImportError(entry.module)
    files = [path for each in _distributions(entry) for path in _recorded_files(each)]
    return [*(spec.submodule_search_locations or [str(spec.origin)]), *files]


def _distributions(entry: EntryPoint) -> Iterable[Distribution]:
    """Return the distribution of a module with rules and those that it requires, without opmkit and what that requires.

    The latter count by their records, as they do for opmkit's own rules.
    """
    own = _with_requirements([_DISTRIBUTION], {})
    found = _with_requirements([_normalized(entry.dist.name)], own) if entry.dist else {}
    return [each for name, each in found.items() if name not in own]


def _with_requirements(names: list[str], known: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return distributions by name with those that they require, transitively, except for what only ``known`` requires.

    Optional requirements count if they are installed.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import: email

    found: dict[str, Distribution] = {}
    while names:
        name = names.pop()
        if name in found or name in known:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        matches = map(_REQUIRED_NAME.match, found[name].requires or ())
        names += [_normalized(match[0]) for match in matches if match]
    return found


def _recorded_files(distribution: Distribution) -> list[str]:
    if '"editable"' in (distribution.read_text("direct_url.json") or ""):
        raise ImportError(distribution.name)
    return [str(path.locate()) for path in distribution.files or () if "__pycache__" not in path.parts]


def _normalized(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _may_have_extensions(location: str) -> bool:
    """Return whether one of `installed_distributions` may be a distribution with rules."""
    if not location.endswith("-info"):
        return True
    try:
        with open(f"{location}/entry_points.txt", "rb") as file:  # noqa: PTH123 - every short command reads all of them
            return ENTRY_POINTS.encode() in file.read()
    except FileNotFoundError:
        return False
    except OSError:
        return True
