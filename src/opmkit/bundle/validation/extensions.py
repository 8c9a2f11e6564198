"""Rules of other distributions, found by their entry points."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


ENTRY_POINTS = "opmkit.rules"
"""Group of the entry points, each of which names a module with rules."""


def extensions() -> list[EntryPoint]:
    """Return the entry points of all installed modules with rules."""
    if not any(map(_may_have_extensions, sys.path)):
        return []
    from importlib.metadata import entry_points  # slow to import: email

    return sorted(entry_points(group=ENTRY_POINTS))


def extension_versions() -> list[str]:
    """Return names and versions of the distributions with rules, such as ``acme-rules 1.0``."""
    return sorted(f"{entry.dist.name} {entry.dist.version}" for entry in extensions() if entry.dist)


def _may_have_extensions(location: str) -> bool:
    """Return whether an entry of ``sys.path`` has a distribution with rules; archives and eggs may have one."""
    path = Path(location)
    if not path.is_dir() or (path / "EGG-INFO").exists():
        return path.exists()
    try:
        return any(ENTRY_POINTS.encode() in file.read_bytes() for file in path.glob("*-info/entry_points.txt"))
    except OSError:
        return True
