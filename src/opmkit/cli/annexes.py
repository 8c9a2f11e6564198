"""Packages of features that can be removed: the core commands work without them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

ANNEXES = ("author", "supply")
"""Packages below ``opmkit``; their commands are in the package of the same name below ``opmkit.cli.commands``."""


@cache
def is_installed(annex: str) -> bool:
    """Return whether a package of `ANNEXES` is installed."""
    return find_spec(f"opmkit.{annex}") is not None
