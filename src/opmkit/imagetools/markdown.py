"""Markdown in which values from outside cannot contain markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Quote text in more backticks than it contains; escape bars for table cells."""
    if not text:
        return ""
    text = escape_controls(text).replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    gap = " " if "`" in text else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join([row(*header), f"|{'---|' * len(header)}", *(row(*cells) for cells in rows)])
