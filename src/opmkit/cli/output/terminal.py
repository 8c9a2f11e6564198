"""Lines that fit a terminal: wrapped between words, with names that people copy in one piece."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

_INDENT = 4
"""Additional indentation of the lines below the first one."""


def terminal_width(stream: TextIO) -> int:
    """Return the number of columns of a stream's terminal; 0 for pipes, files and encodings without an ellipsis."""
    stream = getattr(stream, "rich_proxied_file", stream)  # rich's stand-in during progress has no encoding
    if not stream.isatty() or not (stream.encoding or "").lower().startswith("utf"):
        return 0
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else os.get_terminal_size(stream.fileno()).columns


def fit_line(line: str, stream: TextIO, hanging: int | None = None) -> str:
    """Return a line, wrapped between words if it is wider than the terminal that ``stream`` is.

    Args:
        line: the line, without controls.
        stream: stdout or stderr; what is not a terminal gets the line as it is.
        hanging: indentation of the lines below the first one; by default a little more than that of ``line``.
    """
    if not (width := terminal_width(stream)):
        return line
    if text_width(line) <= width:
        return line
    if hanging is None:
        hanging = len(line) - len(line.lstrip()) + _INDENT
    return "\n".join(wrap(_words(line), width, hanging))


def cut_line(line: str, stream: TextIO) -> str:
    """Return a line, without its last words if it is wider than the terminal that ``stream`` is."""
    width = terminal_width(stream)
    if not width or text_width(line) <= width:
        return line
    mark = " …"
    first = next(wrap(_words(line), width - len(mark)))
    if text_width(first) > width - len(mark):
        from rich.cells import set_cell_size

        first = set_cell_size(first, width - len(mark))
    return first + mark


def wrap(parts: Iterable[str], width: int, hanging: int = 0) -> Iterator[str]:
    """Yield lines of at most ``width`` columns of parts that begin with the space before them; wider parts are whole.

    The lines below the first one have the indentation ``hanging``.
    """
    line = ""
    for part in parts:
        if line.strip() and text_width(line + part) > width:
            yield line
            line = " " * hanging + part.lstrip()
        else:
            line += part
    yield line


def _words(line: str) -> Iterator[str]:
    """Yield the words with the space before each."""
    import re

    return (found[0] for found in re.finditer(r"\s*\S+", line))


def text_width(text: str) -> int:
    """Return the number of columns of a text: characters of East Asian scripts and emoji have two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
