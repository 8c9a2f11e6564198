"""Groups of flags that ``--help`` omits for commands with many flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperOption

ADVANCED_PANEL = "Advanced"
CATALOG_PANEL = "File-based catalogs"
COMPATIBILITY_PANEL = "Compatibility with Go opm"
SCALE_PANEL = "Several machines"
SPECIAL_PANELS = frozenset(
    [
        ADVANCED_PANEL,
        "Baseline",
        CATALOG_PANEL,
        "Catalog pod",
        COMPATIBILITY_PANEL,
        "Container tools",
        "Manifests for the cluster",
        "OLM v1",
        "Optional validators",
        "Other writers of the tag",
        "Pod of the catalog source",
        "Pruning",
        "Registry access",
        SCALE_PANEL,
    ]
)
"""Groups of flags that ``--help`` omits for commands with many flags."""
_MAX_FLAGS = 13
"""Number of flags of a command up to which ``--help`` shows all of them."""


def is_long(parameters: Iterable[Any]) -> bool:
    """Return whether a command has so many flags that ``--help`` omits some of them."""
    flags = [parameter for parameter in parameters if isinstance(parameter, TyperOption) and not parameter.hidden]
    return len(flags) > _MAX_FLAGS and any(flag.rich_help_panel in SPECIAL_PANELS for flag in flags)
