"""``opm alpha render-graph`` and ``opm index graph``: update graphs of catalogs as drawings."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import print_bytes
from opmkit.cli.errors import UsageProblem
from opmkit.cli.fbc_output import CompatOption, told
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.drawing.view import PackageView
    from opmkit.index.fbc.blobs import Blobs


def render_graph(
    ctx: typer.Context,
    *,
    references: Annotated[
        list[str] | None,
        typer.Argument(metavar="REF...", help="Catalog directories, database files, or index images of either kind."),
    ] = None,
    minimum_edge: Annotated[
        str, typer.Option(metavar="BUNDLE", help="Draw the package of this bundle, from its version upwards.")
    ] = "",
    package_name: Annotated[
        str, typer.Option("--package-name", "-p", metavar="NAME", help="Draw this package only.")
    ] = "",
    draw_v0_semantics: Annotated[
        bool, typer.Option("--draw-v0-semantics", help="Mark what is skipped, and updates that are never taken.")
    ] = False,
    compat: CompatOption = Compat.NEWEST,
    connection: Connection,
) -> None:
    """Draw the update graphs of catalogs as mermaid text.

    They need not be valid.

    [bold]Example:[/] opm alpha render-graph ./catalog -p lagoon-operator > graph.mmd
    """
    from opmkit.index.drawing.filter import GraphFilter
    from opmkit.index.drawing.mermaid import render_mermaid

    if not references:
        raise UsageProblem("requires at least 1 arg(s), only received 0", ctx.command_path)
    blobs = _opened(connection, references)
    selection = GraphFilter(package_name, minimum_edge)
    print_bytes([told(render_mermaid(blobs, selection, compat=compat, v0_semantics=draw_v0_semantics))])


class GraphFormat(StrEnum):
    """The forms of a drawing."""

    HTML = "html"
    SVG = "svg"
    DOT = "dot"
    MERMAID = "mermaid"


def graph(
    *,
    reference: Annotated[
        str,
        typer.Argument(metavar="REF", help="A catalog directory, a database file, or an index image of either kind."),
    ],
    package: Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Draw this package only.")] = "",
    channel: Annotated[str, typer.Option(metavar="NAME", help="Draw this channel of the package only.")] = "",
    output: Annotated[
        GraphFormat,
        typer.Option("--output", "-o", help="html (a page to search, zoom and click), svg, dot (Graphviz) or mermaid."),
    ] = GraphFormat.HTML,
    connection: Connection,
) -> None:
    """Draw the update graphs of an index: its channels, what replaces and skips what, and what is deprecated.

    The page needs no network and no server. The index need not be valid: the page tells what is wrong with it.

    [bold]Examples:[/]

      opm index graph quay.io/me/catalog:1 > catalog.html

      opm index graph ./catalog lagoon-operator --channel stable -o svg > stable.svg

      opm index graph index.db lagoon-operator -o dot | dot -Tpdf > lagoon.pdf
    """
    from opmkit.index.drawing.view import package_views
    from opmkit.index.fbc.blobs import Blobs

    if channel and not package:
        raise UsageProblem("--channel is for one package: name it, too", "opm index graph")
    blobs = _opened(connection, [reference])
    packages = package_views(blobs, package, channel)
    if package:
        blobs = Blobs.from_blobs(blob for blob in blobs if blob.package == package)
    print_bytes([_drawn(output, reference, blobs, packages)])


def _drawn(output: GraphFormat, title: str, blobs: Blobs, packages: Sequence[PackageView]) -> bytes:
    from opmkit.index.drawing.dot import render_dot
    from opmkit.index.drawing.mermaid import render_mermaid
    from opmkit.index.drawing.page import package_problems, render_page
    from opmkit.index.drawing.svg import render_svg

    match output:
        case GraphFormat.HTML:
            return render_page(title, packages, package_problems(blobs))
        case GraphFormat.SVG:
            return render_svg(packages).encode()
        case GraphFormat.DOT:
            return render_dot(packages).encode()
    channels = tuple(channel for package in packages for channel in package.channels)
    return told(render_mermaid(replace(blobs, channels=channels)))


def _opened(connection: Connection, references: list[str]) -> Blobs:
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.source import IndexSource

    tool = made_once(connection.tool)
    return Blobs.from_blobs(blob for reference in references for blob in IndexSource.resolve(tool, reference).blobs())


ALPHA = (("render-graph", render_graph),)
