"""The HTML page, its style sheet and the parts of its script."""

from __future__ import annotations

from importlib.resources import files

SCRIPTS = ("dom", "data", "lanes", "board", "draw", "rows", "changes", "details", "package", "search", "main")
"""Parts of the script, in the order in which they are joined; they share one scope."""


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def script() -> str:
    """Return the script of the page."""
    parts = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'
