"""Escaping of untrusted text for terminals and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def escape_controls(text: str) -> str:
    r"""Return the text on one line, with an escape such as ``\x1b`` or ``\n`` for each unprintable character.

    These are control characters (C0, C1), line and paragraph separators, bidirectional controls and surrogates, which
    a terminal may interpret as commands or display out of order. Backslashes are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


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
