"""The files that drawings have in them: styles, and the page with its script."""

from __future__ import annotations

from importlib.resources import files


def asset(name: str) -> str:
    """The text of the file of that name."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
