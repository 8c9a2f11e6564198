"""Rules of other distributions, found by their entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

ENTRY_POINTS = "opmkit.rules"
"""Group of the entry points, each of which names a module with rules."""


def extensions() -> list[EntryPoint]:
    """Return the entry points of all installed modules with rules."""
    return sorted(entry_points(group=ENTRY_POINTS))


def extension_versions() -> list[str]:
    """Return names and versions of the distributions with rules, such as ``acme-rules 1.0``."""
    return sorted(f"{entry.dist.name} {entry.dist.version}" for entry in extensions() if entry.dist)
