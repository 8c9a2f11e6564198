"""Style sheet of drawings."""

from __future__ import annotations

from importlib.resources import files


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
