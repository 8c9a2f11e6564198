"""Rules of other distributions, which entry points of the group ``opmkit.rules`` name."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

ENTRY_POINTS = "opmkit.rules"
"""The group of entry points by which other distributions add modules of rules."""


def extensions() -> list[EntryPoint]:
    """The modules of rules that are added."""
    return sorted(entry_points(group=ENTRY_POINTS))


def extension_versions() -> list[str]:
    """The distributions that add rules, and their versions."""
    return sorted(f"{entry.dist.name} {entry.dist.version}" for entry in extensions() if entry.dist)
