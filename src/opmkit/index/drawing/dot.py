"""Update graphs as text for Graphviz, in the language DOT (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.drawing.layout import EdgeType, layout_edges
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.index.drawing.layout import ChannelLayout
    from opmkit.index.drawing.view import PackageView

MAX_UPDATES = 100_000
"""Arrows in one drawing; Graphviz is of no use long before."""

_STYLES = {
    EdgeType.REPLACES: "",
    EdgeType.SKIPS: ' [style=dashed, label="skips"]',
    EdgeType.RANGE: ' [style=dotted, label="skip range"]',
}


def render_dot(packages: Iterable[PackageView]) -> str:
    """Draw packages: a box for each, with one for each of its channels; arrows lead from the older to the newer bundle.

    Raises:
        CatalogError: there are too many updates.
    """
    lines = ["digraph updates {", "  rankdir=LR;", "  node [shape=box, fontname=sans];", "  edge [fontname=sans];"]
    clusters, left = count(), count(MAX_UPDATES, -1)
    for package in packages:
        lines += [f"  subgraph cluster_{next(clusters)} {{", f"    label={_quoted(package.name)};"]
        for channel, drawn in package.layouts():
            cluster = next(clusters)
            lines += [f"    subgraph cluster_{cluster} {{", *_channel(package, channel.name)]
            lines += _nodes(package, drawn, cluster)
            lines += _edges(drawn, cluster, left)
            lines.append("    }")
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _channel(package: PackageView, name: str) -> Iterator[str]:
    yield f"      label={_quoted(f'{name} (default)' if name == package.default_channel else name)};"
    if package.channel_deprecation(name):
        yield "      bgcolor=lavender;"


def _nodes(package: PackageView, drawn: ChannelLayout, cluster: int) -> Iterator[str]:
    for number, row in enumerate(drawn.rows):
        deprecated = package.bundle_deprecation(row.name)
        style = "filled" if deprecated else "dashed" if not row.is_entry else "solid"
        attributes = f"label={_quoted(row.name)}, style={style}"
        if deprecated:
            attributes += f", fillcolor=orange, tooltip={_quoted(deprecated)}"
        yield f"      c{cluster}_{number} [{attributes}];"


def _edges(drawn: ChannelLayout, cluster: int, left: Iterator[int]) -> Iterator[str]:
    for older, newer, update in layout_edges(drawn):
        if not next(left):
            raise CatalogError(
                f"there are more than {MAX_UPDATES} updates to draw",
                hint=Hint.any_of("select one package", Hint("select one channel with {}", Setting.CHANNEL)),
            )
        yield f"      c{cluster}_{older} -> c{cluster}_{newer}{_STYLES[update]};"


def _quoted(text: str) -> str:
    """Return the text as a quoted string in which Graphviz finds neither escapes nor entities of HTML."""
    escaped = escape_controls(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{escaped}"'
