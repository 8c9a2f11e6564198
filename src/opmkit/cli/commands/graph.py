"""``opm alpha render-graph`` and ``opm index graph``: draw the update graphs of indexes."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_bytes
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.fbc import CompatOption, encode_mermaid
from opmkit.cli.progress.command import waiting
from opmkit.core.lazy import call_once
from opmkit.index.fbc.compat import CatalogCompat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.pictures.view import PackageView


def render_graph(
    ctx: typer.Context,
    *,
    references: Annotated[
        list[str] | None,
        typer.Argument(metavar="REF...", help=INDEX_HELP),
    ] = None,
    minimum_edge: Annotated[
        str, typer.Option(metavar="BUNDLE", help="Bundle whose package to draw, from its version upwards")
    ] = "",
    package_name: Annotated[
        str, typer.Option("--package-name", "-p", metavar="NAME", help="Package to draw; default: all")
    ] = "",
    draw_v0_semantics: Annotated[
        bool, typer.Option("--draw-v0-semantics", help="Mark skipped bundles, and updates that are never used")
    ] = False,
    compat: CompatOption = CatalogCompat.NEWEST,
    registry_flags: RegistryFlags,
) -> None:
    """Print the update graphs of indexes, which may be invalid, as mermaid text

    [bold]Example:[/] opm alpha render-graph ./catalog -p lagoon-operator > graph.mmd
    """
    from opmkit.index.pictures.filter import GraphFilter
    from opmkit.index.pictures.mermaid import render_mermaid

    if not references:
        raise UsageError("requires at least 1 arg(s), only received 0", ctx.command_path)
    blobs = _load_blobs(registry_flags, references)
    graph_filter = GraphFilter(package_name, minimum_edge)
    with waiting("Drawing graphs"):
        graph = render_mermaid(blobs, graph_filter, compat=compat, v0_semantics=draw_v0_semantics)
    print_bytes([encode_mermaid(graph)])


class GraphFormat(StrEnum):
    """Output formats of a drawing."""

    HTML = "html"
    SVG = "svg"
    DOT = "dot"
    MERMAID = "mermaid"


def graph(
    *,
    reference: Annotated[str, typer.Argument(metavar="REF", help=INDEX_HELP)],
    package: Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Package to draw; default: all")] = "",
    channel: Annotated[str, typer.Option(metavar="NAME", help="Channel of the package to draw; default: all")] = "",
    output: Annotated[
        GraphFormat,
        typer.Option(
            "--output", "-o", help="Output format: html (an interactive page), svg, dot (Graphviz) or mermaid"
        ),
    ] = GraphFormat.HTML,
    registry_flags: RegistryFlags,
) -> None:
    """Draw the update graphs of an index: channels, replaces and skips edges, and deprecations

    The page works offline. The index may be invalid: the page shows the findings.

    [bold]Examples:[/]

      opm index graph quay.io/me/catalog:1 > catalog.html

      opm index graph ./catalog lagoon-operator --channel stable -o svg > stable.svg

      opm index graph index.db lagoon-operator -o dot | dot -Tpdf > lagoon.pdf
    """
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.pictures.view import package_views

    if channel and not package:
        raise UsageError("--channel requires a package", "opm index graph")
    blobs = _load_blobs(registry_flags, [reference])
    with waiting(f"Drawing {reference}"):
        packages = package_views(blobs, package, channel)
        if package:
            blobs = Blobs.from_blobs(blob for blob in blobs if blob.package == package)
        drawing = _render(output, reference, blobs, packages)
    print_bytes([drawing])


def _render(output: GraphFormat, title: str, blobs: Blobs, packages: Sequence[PackageView]) -> bytes:
    from opmkit.index.pictures.dot import render_dot
    from opmkit.index.pictures.mermaid import render_mermaid
    from opmkit.index.pictures.page.page import render_page
    from opmkit.index.pictures.problems import package_problems
    from opmkit.index.pictures.svg import render_svg

    if output is GraphFormat.MERMAID:
        channels = tuple(channel for package in packages for channel in package.channels)
        return encode_mermaid(render_mermaid(replace(blobs, channels=channels)))
    problems = package_problems(blobs, packages)
    match output:
        case GraphFormat.SVG:
            return render_svg(packages, problems).encode()
        case GraphFormat.DOT:
            return render_dot(packages, problems).encode()
    return render_page(title, packages, problems)


def _load_blobs(registry_flags: RegistryFlags, references: list[str]) -> Blobs:
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.source import IndexSource

    tool = call_once(registry_flags.tool)
    blobs: list[Blob] = []
    for reference in references:
        with waiting(f"Loading {reference}"):
            blobs.extend(IndexSource.resolve(tool, reference).blobs())
    return Blobs.from_blobs(blobs)
