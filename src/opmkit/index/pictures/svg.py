"""Update graphs as SVG, without other programs; each channel is drawn as laid out by :mod:`.layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.pictures.assets import asset
from opmkit.index.pictures.problems import problem_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import ChannelBlob
    from opmkit.index.pictures.layout import ChannelLayout, Row
    from opmkit.index.pictures.problems import PackageProblem
    from opmkit.index.pictures.view import PackageView

MAX_ROWS = 10_000
"""Rows of all channels in a drawing; viewers are slow long before."""

_ROW_HEIGHT, _LANE_WIDTH, _MARGIN, _ARCS_WIDTH = 24, 18, 24, 96
_CHARACTER_WIDTH = 7.3
"""Average width of a character of a label, in pixels."""
_MIN_WIDTH = 400.0
_MAX_LABEL = 160
"""Characters of a label."""


def render_svg(packages: Iterable[PackageView], problems: Mapping[str, Sequence[PackageProblem]]) -> str:
    """Return a drawing of all channels, one below the other.

    All ``replaces`` edges are drawn. Of the bundles that skip a bundle, only the nearest is connected by a dashed arc,
    and the label has the number of the others.

    Args:
        packages: The packages to draw.
        problems: Their problems by name of the package. Bundles that have one are drawn in red, with a remark.

    Raises:
        CatalogError: There are more than `MAX_ROWS` rows.
    """
    body: list[str] = []
    top, width, rows = _MARGIN, _MIN_WIDTH, 0
    for package in packages:
        for channel, layout in package.layouts():
            rows += len(layout.rows)
            if rows > MAX_ROWS:
                raise CatalogError(
                    f"more than {MAX_ROWS} bundles to draw",
                    hint=Hint.any_of("select one package", Hint("select one channel with {}", IndexSetting.CHANNEL)),
                )
            labels = problem_labels(problems.get(package.name, ()), channel.name)
            elements, channel_width = _channel(package, channel, layout, labels)
            body += [f'<g transform="translate({_MARGIN} {top})">', *elements, "</g>"]
            top, width = top + (len(layout.rows) + 3) * _ROW_HEIGHT, max(width, channel_width)
    size = f'width="{width + 2 * _MARGIN:.0f}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>Update graphs</title>'
    return "\n".join([head, f"<style>\n{asset('graph.css')}</style>", *body, "</svg>"]) + "\n"


def _channel(
    package: PackageView, channel: ChannelBlob, layout: ChannelLayout, problems: Mapping[str, str]
) -> tuple[list[str], float]:
    """Return the elements of a channel and its width in pixels."""
    title = f"{package.name} / {channel.name}" + " (default)" * (channel.name == package.default_channel)
    deprecation = package.channel_deprecation(channel.name) or package.deprecation
    elements = [f'<text class="title" y="{_ROW_HEIGHT}">{_text(title)}</text>']
    if deprecation:
        y = 2 * _ROW_HEIGHT - 4
        elements.append(f'<text class="deprecated" y="{y}">{_text(f"deprecated: {deprecation}")}</text>')
    skippers = _skippers(layout.rows)
    elements += _edges(package, layout, skippers)
    width = len(title) * _CHARACTER_WIDTH * 1.4
    for number, row in enumerate(layout.rows):
        label_x = _ARCS_WIDTH + row.lanes * _LANE_WIDTH
        label = row.name[:_MAX_LABEL]
        problem = _problem(package, row, problems)[:_MAX_LABEL]
        remarks = ", ".join(_remarks(package, layout, row, skippers[number]))[:_MAX_LABEL]
        remark_elements = [
            f'<tspan class="{kind}">{_text(text)}</tspan>'
            for kind, text in (("problem", problem), ("muted", remarks))
            if text
        ]
        classes = " ".join([_classes(package, row, skippers[number]), *["problem"] * bool(problem)]).strip()
        y = _y(number)
        elements += [
            f'<g><title>{_text(row.name)}</title><circle class="{classes}" cx="{_x(row)}" cy="{y}" r="5"/>',
            f'<text x="{label_x}" y="{y + 4}">{" ".join([_text(label), *remark_elements])}</text>',
            "</g>",
        ]
        width = max(width, label_x + (len(label) + len(problem) + bool(problem) + len(remarks) + 2) * _CHARACTER_WIDTH)
    return elements, width


def _classes(package: PackageView, row: Row, skippers: Sequence[int]) -> str:
    if not row.is_entry:
        return "outside"
    is_deprecated = bool(package.bundle_deprecation(row.name))
    return " ".join(["deprecated"] * is_deprecated + ["skipped"] * bool(skippers))


def _skippers(rows: Sequence[Row]) -> list[list[int]]:
    """Return the rows that skip each row, from top to bottom."""
    skippers: list[list[int]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        for skipped in row.skips:
            skippers[skipped].append(number)
    return skippers


def _edges(package: PackageView, layout: ChannelLayout, skippers: Sequence[Sequence[int]]) -> Iterator[str]:
    for number, row in enumerate(layout.rows):
        if row.replaces is not None:
            older = layout.rows[row.replaces]
            problem = " cycle" if _is_cyclic(row, older) else "" if older.name in package.bundles else " missing"
            yield f'<path class="replaces{problem}" d="{_replaces_path(layout.rows, number, row.replaces)}"/>'
        above = [skipper for skipper in skippers[number] if skipper < number] or skippers[number]
        if above:
            yield f'<path class="skips" d="{_skips_path(row, number, layout.rows[above[-1]], above[-1])}"/>'
        for skipper in skippers[number]:
            if _is_cyclic(row, layout.rows[skipper]):
                yield f'<path class="skips cycle" d="{_skips_path(row, number, layout.rows[skipper], skipper)}"/>'


def _is_cyclic(row: Row, other: Row) -> bool:
    return row.cycle is not None and row.cycle == other.cycle


def _replaces_path(rows: Sequence[Row], newer: int, older: int) -> str:
    """Return a path down the lane of the newer bundle, then across to that of the older one; upwards, an arc."""
    if older <= newer:
        return _skips_path(rows[newer], newer, rows[older], older)
    x, y, to_x, to_y = _x(rows[newer]), _y(newer), _x(rows[older]), _y(older)
    if x == to_x:
        return f"M{x} {y}V{to_y}"
    turn = to_y - _ROW_HEIGHT
    return f"M{x} {y}V{turn}C{x} {to_y} {to_x} {turn} {to_x} {to_y}"


def _skips_path(row: Row, number: int, skipper: Row, skipper_number: int) -> str:
    """Return an arc to the left of the lanes, wider for more distant rows; for a bundle that updates itself, a loop."""
    if number == skipper_number:
        return f"M{_x(row)} {_y(number)}c-24 -18 -24 18 0 0"
    left = max(4, _ARCS_WIDTH - 16 - 6 * abs(number - skipper_number))
    y, to_y = _y(number), _y(skipper_number)
    return f"M{_x(row)} {y}C{left} {y} {left} {to_y} {_x(skipper)} {to_y}"


def _x(row: Row) -> int:
    return _ARCS_WIDTH + row.lane * _LANE_WIDTH


def _y(number: int) -> int:
    return (number + 2) * _ROW_HEIGHT + _ROW_HEIGHT // 2


def _problem(package: PackageView, row: Row, problems: Mapping[str, str]) -> str:
    """Return the remark on a problem of a bundle, or "" if it has none."""
    if known := problems.get(row.name):
        return known
    if row.cycle is not None:
        return "in a cycle"
    return "" if row.is_entry or row.name in package.bundles else "does not exist"


def _remarks(package: PackageView, layout: ChannelLayout, row: Row, skippers: Sequence[int]) -> Iterator[str]:
    if not row.is_entry and row.name in package.bundles:
        yield "not in this channel"
    if deprecation := package.bundle_deprecation(row.name):
        yield f"deprecated: {deprecation}"
    if skippers:
        nearest = layout.rows[skippers[-1]].name
        yield f"skipped by {nearest}" + f" and {len(skippers) - 1} more" * (len(skippers) > 1)
    if row.skips:
        yield f"skips {len(row.skips)}"
    if row.skip_range:
        yield f"skip range {row.skip_range}"


def _text(text: str) -> str:
    return escape(escape_controls(text)).replace("##", "&#35;#")  # of commands to CI systems
