"""Update graphs as SVG, without another program: each channel as rows, as :mod:`.layout` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.drawing.assets import asset
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.index.drawing.layout import ChannelLayout, Row
    from opmkit.index.drawing.view import PackageView
    from opmkit.index.fbc.blobs import ChannelBlob

MAX_ROWS = 10_000
"""Bundles in one drawing, counted once for each channel; a viewer of such an image is slow long before."""

_ROW, _LANE, _MARGIN, _ARCS = 24, 18, 24, 96
_LETTER = 7.3
"""Pixels that a letter takes on average, in the font of the labels."""
_TEXT = 160
"""Characters of a label that are shown."""


def render_svg(packages: Iterable[PackageView]) -> str:
    """Draw the channels of packages, one below the other.

    Lines down to the bundle that is replaced are drawn in full. Of all that skip a bundle, a dashed arc comes from the
    nearest, and the label counts the others.

    Raises:
        CatalogError: there are too many bundles to draw.
    """
    body: list[str] = []
    top, width, rows = _MARGIN, 400.0, 0
    for package in packages:
        for channel, drawn in package.layouts():
            rows += len(drawn.rows)
            if rows > MAX_ROWS:
                raise CatalogError(
                    f"there are more than {MAX_ROWS} bundles to draw",
                    hint=Hint.any_of("select one package", Hint("select one channel with {}", Setting.CHANNEL)),
                )
            block, wide = _channel(package, channel, drawn)
            body += [f'<g transform="translate({_MARGIN} {top})">', *block, "</g>"]
            top, width = top + (len(drawn.rows) + 3) * _ROW, max(width, wide)
    size = f'width="{width + 2 * _MARGIN:.0f}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>Update graphs</title>'
    return "\n".join([head, f"<style>\n{asset('graph.css')}</style>", *body, "</svg>"]) + "\n"


def _channel(package: PackageView, channel: ChannelBlob, drawn: ChannelLayout) -> tuple[list[str], float]:
    """The elements of a channel, and how wide they are, in pixels."""
    title = f"{package.name} / {channel.name}" + " (default)" * (channel.name == package.default_channel)
    deprecated = package.channel_deprecation(channel.name) or package.deprecation
    lines = [f'<text class="title" y="{_ROW}">{_text(title)}</text>']
    if deprecated:
        lines.append(f'<text class="deprecated" y="{2 * _ROW - 4}">{_text(f"deprecated: {deprecated}")}</text>')
    skippers = _skippers(drawn.rows)
    lines += _lines(drawn, skippers)
    width = len(title) * _LETTER * 1.4
    for number, row in enumerate(drawn.rows):
        labels = _ARCS + row.lanes * _LANE
        label, more = row.name[:_TEXT], ", ".join(_remarks(package, drawn, row, skippers[number]))[:_TEXT]
        kinds = ["deprecated"] * bool(package.bundle_deprecation(row.name)) + ["skipped"] * bool(skippers[number])
        kind = "outside" if not row.is_entry else " ".join(kinds)
        lines += [
            f'<g><title>{_text(row.name)}</title><circle class="{kind}" cx="{_x(row)}" cy="{_y(number)}" r="5"/>',
            f'<text x="{labels}" y="{_y(number) + 4}">{_text(label)} <tspan class="more">{_text(more)}</tspan></text>',
            "</g>",
        ]
        width = max(width, labels + (len(label) + len(more) + 2) * _LETTER)
    return lines, width


def _skippers(rows: Sequence[Row]) -> list[list[int]]:
    """The rows that skip each row, from the top to the bottom."""
    found: list[list[int]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        for skipped in row.skips:
            found[skipped].append(number)
    return found


def _lines(drawn: ChannelLayout, skippers: Sequence[Sequence[int]]) -> Iterator[str]:
    for number, row in enumerate(drawn.rows):
        if row.replaces is not None:
            yield f'<path class="replaces" d="{_way(drawn.rows, number, row.replaces)}"/>'
        above = [one for one in skippers[number] if one < number] or skippers[number]
        if above:
            yield f'<path class="skips" d="{_arc(row, number, drawn.rows[above[-1]], above[-1])}"/>'


def _way(rows: Sequence[Row], newer: int, older: int) -> str:
    """Down the lane of the newer bundle, and over to that of the older one."""
    x, y, to_x, to_y = _x(rows[newer]), _y(newer), _x(rows[older]), _y(older)
    if x == to_x:
        return f"M{x} {y}V{to_y}"
    turn = to_y - _ROW if to_y > y else to_y + _ROW
    return f"M{x} {y}V{turn}C{x} {to_y} {to_x} {turn} {to_x} {to_y}"


def _arc(row: Row, number: int, skipper: Row, above: int) -> str:
    """An arc at the left of the lanes, the wider the farther it goes."""
    left = max(4, _ARCS - 16 - 6 * abs(number - above))
    return f"M{_x(row)} {_y(number)}C{left} {_y(number)} {left} {_y(above)} {_x(skipper)} {_y(above)}"


def _x(row: Row) -> int:
    return _ARCS + row.lane * _LANE


def _y(number: int) -> int:
    return (number + 2) * _ROW + _ROW // 2


def _remarks(package: PackageView, drawn: ChannelLayout, row: Row, skippers: Sequence[int]) -> Iterator[str]:
    if not row.is_entry:
        yield "not in this channel"
    if deprecated := package.bundle_deprecation(row.name):
        yield f"deprecated: {deprecated}"
    if skippers:
        nearest = drawn.rows[skippers[-1]].name
        yield f"skipped by {nearest}" + f" and {len(skippers) - 1} more" * (len(skippers) > 1)
    if row.skips:
        yield f"skips {len(row.skips)}"
    if row.skip_range:
        yield f"skip range {row.skip_range}"


def _text(text: str) -> str:
    return escape(escape_controls(text))
