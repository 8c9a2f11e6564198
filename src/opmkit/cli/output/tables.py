"""Layout of tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from opmkit.cli.output.terminal import text_width, wrap

_SEPARATOR = "  "
_EMPTY = frozenset({"", "-"})
"""Cells without a value."""
_READABLE = 28
"""Width that texts get, if they are as wide, before optional columns are omitted."""

Row = Sequence[str]


def fit_table(table: Sequence[Row], width: int, optional: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the lines of a table that fits ``width``, and the names of the columns that it omits.

    If the table is too wide, digests are shortened, empty columns omitted and texts wrapped between words, and the
    columns in ``optional`` are omitted, in this order, as far as it is necessary. If names are wider than the terminal
    nevertheless, the result has a line for each cell instead, and nothing is omitted.

    Args:
        table: rows of equal length; the first one is the header.
        width: number of columns of the terminal.
        optional: names of the less important columns.
    """
    if _total(_widths(table)) <= width:
        return list(_lines(table, _widths(table))), []
    from opmkit.cli.output.shortening import shorten_digest

    rows: list[Row] = [list(map(shorten_digest, row)) for row in table]
    for name in [name for name, *cells in zip(*rows, strict=True) if _EMPTY.issuperset(cells)]:
        rows = _without(rows, name)
    complete, omitted = rows, []
    for name in optional:
        if _total(_readable_widths(rows)) <= width:
            break
        if name in rows[0]:
            rows = _without(rows, name)
            omitted.append(name)
    widths, needed = _widths(rows), _needed_widths(rows)
    if _total(needed) > width:
        return list(_records(complete, width)), []
    while _total(widths) > width:
        widest = max((index for index in range(len(widths)) if widths[index] > needed[index]), key=widths.__getitem__)
        widths[widest] -= 1
    return list(_lines(rows, widths)), omitted


def _lines(rows: Sequence[Row], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of each row, whose cells are wrapped to the widths of their columns."""
    for row in rows:
        cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            *first, last = [cell[number] if number < len(cell) else "" for cell in cells]
            yield _SEPARATOR.join([*map(_pad, first, widths), last]).rstrip()


def _records(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield a line for each cell that is not empty, behind the name of its column, and an empty one between rows."""
    header, *others = rows
    start = max(map(len, header)) + len(":") + len(_SEPARATOR)
    for number, row in enumerate(others):
        if number:
            yield ""
        for name, cell in zip(header, row, strict=True):
            if cell:
                first, *more = _wrapped(cell, width - start)
                yield f"{name + ':':<{start}}{first}"
                yield from (" " * start + line for line in more)


def _wrapped(cell: str, width: int) -> list[str]:
    return [cell] if text_width(cell) <= width else list(wrap(_parts(cell), width))


def _parts(cell: str) -> list[str]:
    """Return the words of a cell, and the elements of lists in it, each with the space before it."""
    import re

    return re.findall(r"\s*(?:[^\s,]+,?|,)", cell)


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - text_width(cell))


def _widths(table: Sequence[Row]) -> list[int]:
    return [max(map(text_width, column)) for column in zip(*table, strict=True)]


def _needed_widths(rows: Sequence[Row]) -> list[int]:
    """Return the width of the widest word in each column."""
    header, *others = rows
    columns = list(zip(*others, strict=True)) or [()] * len(header)
    return [
        max([text_width(name), *(text_width(part.strip()) for cell in column for part in _parts(cell))])
        for name, column in zip(header, columns, strict=True)
    ]


def _readable_widths(rows: Sequence[Row]) -> list[int]:
    return [
        max(needed, min(width, _READABLE)) for needed, width in zip(_needed_widths(rows), _widths(rows), strict=True)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_SEPARATOR) * (len(widths) - 1)


def _without(rows: Sequence[Row], name: str) -> list[Row]:
    index = rows[0].index(name)
    return [[*row[:index], *row[index + 1 :]] for row in rows]
