"""Layout of tables that fit a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence

SEPARATOR = "  "
_DIGEST = re.compile(r"(sha\d{3}:[0-9a-f]{12})[0-9a-f]{20,}")
_ELLIPSIS = "…"
_IMAGE = re.compile(rf"(.+)@(sha\d{{3}}:[0-9a-f]{{12}}){_ELLIPSIS}")
_OMITTED_DIGITS = 5
_MIN_IMAGE = 22
"""Width in which a part of the name fits next to seven digits of the digest."""
_READABLE = 28
"""Width to which columns are shortened before optional columns are omitted."""
_MIN_WIDTH = 8

Row = Sequence[str]


def shorten_digests(text: str) -> str:
    """Return ``text`` with at most 12 hexadecimal digits in each digest."""
    return _DIGEST.sub(rf"\1{_ELLIPSIS}", text)


def wrap_line(line: str, width: int) -> str:
    """Return a line with short digests, wrapped between words if it is still wider than ``width``."""
    if len(line) <= width:
        return line
    line = shorten_digests(line)
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )
    return "\n".join(lines)


def fit_table(table: Sequence[Row], width: int, optional: Collection[str] = ()) -> tuple[list[Row], list[str]]:
    """Return a table that fits ``width``, and the names of the columns that it omits.

    If the table is too wide, digests are shortened and empty columns omitted; then texts are shortened in the middle,
    and the columns in ``optional`` are omitted, in this order, as far as it is necessary.

    Args:
        table: rows of equal length; the first one is the header.
        width: number of columns of the terminal.
        optional: names of the less important columns.
    """
    if _total(_widths(table)) <= width:
        return list(table), []
    rows: list[Row] = [list(map(shorten_digests, row)) for row in table]
    for name in [name for name, *cells in zip(*rows, strict=True) if not any(cells)]:
        rows = _without(rows, name)
    omitted = []
    for name in optional:
        if _total([min(column, _READABLE) for column in _widths(rows)]) <= width:
            break
        if name in rows[0]:
            rows = _without(rows, name)
            omitted.append(name)
    widths = _widths(rows)
    while _total(widths) > width and max(widths) > _MIN_WIDTH:
        widths[widths.index(max(widths))] -= 1
    return [[shorten(cell, column) for cell, column in zip(row, widths, strict=True)] for row in rows], omitted


def _widths(table: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(SEPARATOR) * (len(widths) - 1)


def _without(rows: Sequence[Row], name: str) -> list[Row]:
    index = rows[0].index(name)
    return [[*row[:index], *row[index + 1 :]] for row in rows]


def shorten(text: str, width: int) -> str:
    """Return ``text`` shortened in its first half: the ends of images and names differ most."""
    if len(text) <= width:
        return text
    if width >= _MIN_IMAGE and (image := _IMAGE.fullmatch(text)):
        return _shorten_image(image[1], image[2], width)
    head = (width - 1) // 3
    return text[:head] + _ELLIPSIS + text[len(text) - (width - 1 - head) :]


def _shorten_image(name: str, digest: str, width: int) -> str:
    """Return an image with the start of its digest, and as much of its name as fits: the end, then the registry."""
    remaining = width - len(digest) - len("@…")
    if remaining >= _READABLE:
        return f"{shorten(name, remaining)}@{digest}{_ELLIPSIS}"
    digest = digest[:-_OMITTED_DIGITS]
    remaining += _OMITTED_DIGITS
    return f"{name if len(name) <= remaining else _ELLIPSIS + name[1 - remaining :]}@{digest}{_ELLIPSIS}"
