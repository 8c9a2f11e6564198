"""Update graphs in Graphviz's DOT language (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.pictures.layout import EdgeType, layout_edges
from opmkit.index.pictures.problems import problem_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.pictures.layout import ChannelLayout
    from opmkit.index.pictures.problems import PackageProblem
    from opmkit.index.pictures.view import PackageView

MAX_EDGES = 100_000
"""Edges of a drawing; Graphviz fails long before."""

_ATTRIBUTES = {
    EdgeType.REPLACES: "",
    EdgeType.SKIPS: ' [style=dashed, label="skips"]',
    EdgeType.SKIP_RANGE: ' [style=dotted, label="skip range"]',
}


def render_dot(packages: Iterable[PackageView], problems: Mapping[str, Sequence[PackageProblem]]) -> str:
    """Return a graph with a cluster for each package and, within it, for each channel; edges lead to newer bundles.

    Args:
        packages: The packages to draw.
        problems: Their problems by name of the package. Bundles that have one are drawn in red, with a tooltip.

    Raises:
        CatalogError: The graph has more than `MAX_EDGES` edges.
    """
    lines = ["digraph updates {", "  rankdir=LR;", "  node [shape=box, fontname=sans];", "  edge [fontname=sans];"]
    clusters, remaining_edges = count(), count(MAX_EDGES, -1)
    for package in packages:
        lines += [f"  subgraph cluster_{next(clusters)} {{", f"    label={_quote(package.name)};"]
        for channel, layout in package.layouts():
            cluster = next(clusters)
            lines += [f"    subgraph cluster_{cluster} {{", *_channel_attributes(package, channel.name)]
            labels = problem_labels(problems.get(package.name, ()), channel.name)
            lines += _nodes(package, layout, cluster, labels)
            lines += _edges(package, layout, cluster, remaining_edges)
            lines.append("    }")
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _channel_attributes(package: PackageView, name: str) -> Iterator[str]:
    yield f"      label={_quote(f'{name} (default)' if name == package.default_channel else name)};"
    if package.channel_deprecation(name):
        yield "      bgcolor=lavender;"


def _nodes(package: PackageView, layout: ChannelLayout, cluster: int, problems: Mapping[str, str]) -> Iterator[str]:
    for number, row in enumerate(layout.rows):
        deprecation = package.bundle_deprecation(row.name)
        style = "filled" if deprecation else "solid" if row.is_entry else "dashed"
        attributes = f"label={_quote(row.name)}, style={style}"
        if deprecation:
            attributes += ", fillcolor=orange"
        if row.name in problems:
            attributes += ", color=red, fontcolor=red"
        if tooltip := ", ".join(filter(None, (problems.get(row.name), deprecation))):
            attributes += f", tooltip={_quote(tooltip)}"
        yield f"      c{cluster}_{number} [{attributes}];"


def _edges(package: PackageView, layout: ChannelLayout, cluster: int, remaining: Iterator[int]) -> Iterator[str]:
    for older, newer, edge_type in layout_edges(layout):
        if not next(remaining):
            raise CatalogError(
                f"more than {MAX_EDGES} edges to draw",
                hint=Hint.any_of("select one package", Hint("select one channel with {}", IndexSetting.CHANNEL)),
            )
        attributes = _ATTRIBUTES[edge_type]
        cycle = layout.rows[older].cycle
        is_missing = layout.rows[older].name not in package.bundles
        if is_missing or (cycle is not None and cycle == layout.rows[newer].cycle):
            attributes += " [color=red]"
        yield f"      c{cluster}_{older} -> c{cluster}_{newer}{attributes};"


def _quote(text: str) -> str:
    """Return a quoted string without escape sequences and HTML entities for Graphviz to interpret."""
    escaped = escape_controls(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    escaped = escaped.replace("##", "&#35;#")  # of commands to CI systems
    return f'"{escaped}"'
