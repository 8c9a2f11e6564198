"""The installed code that a cached result depends on: opmkit's own, and that of other distributions with rules.

The commands that only print a cached result import this module, so it imports little.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opmkit._version import __version__
from opmkit.core.cache import code_digest, installed_distributions, tree_digest

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

    The code of a module is that of its distribution, and of the package that contains it. It is unknown if it is not in
    files, or is installed in editable form: then it may use any file of the source tree.
    """
    try:
        return [f"{entry.name} {entry.value} {tree_digest(_code_files(entry))}" for entry in extensions()]
    except (OSError, ImportError, ValueError):
        return None


def _code_files(entry: EntryPoint) -> list[str]:
    spec = find_spec(entry.module.partition(".")[0])
    if spec is None or not (spec.submodule_search_locations or spec.has_location):
        raise ImportError(entry.module)
    if entry.dist and '"editable"' in (entry.dist.read_text("direct_url.json") or ""):
        raise ImportError(entry.module)
    recorded = (entry.dist.files if entry.dist else None) or ()
    files = [str(path.locate()) for path in recorded if "__pycache__" not in path.parts]
    return [*(spec.submodule_search_locations or [str(spec.origin)]), *files]


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
