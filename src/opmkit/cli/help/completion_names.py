"""Names that complete the values of flags and arguments: profiles, rules, kinds of differences, and packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BUNDLE_PROFILES = (
    *("default", "opm", "operator-sdk", "operatorhub", "community", "redhat", "preflight", "olm-v1", "all"),
)
CATALOG_PROFILES = ("konflux",)
"""Values of ``--profile``."""
_MAX_CATALOG_SIZE = 64 << 20
"""Bytes of the largest catalog whose packages are completed, so that the shell does not wait for long."""


def known_names(command: str, param: Any, arguments: Sequence[str]) -> list[str]:
    """Return the names that a parameter of a command accepts, empty if they are not known here.

    Args:
        command: path of the command, such as ``opm index diff``.
        param: the parameter.
        arguments: the arguments before it, of which the first can be a catalog in a file or directory.
    """
    metavar = (param.metavar or "").strip("[]")
    if metavar.partition(",")[0] == "RULE":
        return _rules()
    if "--profile" in param.opts:
        return list(CATALOG_PROFILES if command == "opm validate" else BUNDLE_PROFILES)
    if "--fail-on" in param.opts:
        return list(_kinds(command))
    if metavar.startswith("PACKAGE") and arguments:
        return _packages(arguments[0])
    return []


def _rules() -> list[str]:
    from opmkit.api import Opm

    return [rule.id for rule in Opm().list_rules()]


def _kinds(command: str) -> Iterable[str]:
    from opmkit import DangerKind, Severity
    from opmkit.cli.commands.index_plan import _KINDS
    from opmkit.cli.flags.index import difference_kinds

    if command == "opm index plan":
        return _KINDS
    if command == "opm bundle permissions":
        return ("any", *DangerKind)
    return difference_kinds() if command.startswith("opm index ") else Severity


def _packages(catalog: str) -> list[str]:
    """Return the packages of a catalog in a directory or file; empty for images, which are not pulled."""
    from opmkit.api import Opm
    from opmkit.core.errors import OpmkitError

    path = Path(catalog)
    try:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        if not files or sum(file.stat().st_size for file in files) > _MAX_CATALOG_SIZE:
            return []
        return [package.name for package in Opm().list_packages(catalog)]
    except (OpmkitError, OSError):  # a broken catalog has nothing to complete
        return []
