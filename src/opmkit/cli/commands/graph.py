"""``opm alpha render-graph`` and ``opm index graph``: update graphs of catalogs as drawings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.catalogformats import Compat
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.params import Connection, made_once
from opmkit.index.catalog.dialect import Dialect

if TYPE_CHECKING:
    from opmkit.index.catalog.blobs import Blobs


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
    compat: Compat = Dialect.NEWEST,
    connection: Connection,
) -> None:
    """Draw the update graphs of catalogs as mermaid text.

    They need not be valid.

    [bold]Example:[/] opm alpha render-graph ./catalog -p lagoon-operator > graph.mmd
    """
    from opmkit.index.catalog.drawing.mermaid import mermaid
    from opmkit.index.catalog.drawing.selection import Selection

    if not references:
        raise UsageProblem("requires at least 1 arg(s), only received 0", ctx.command_path)
    blobs = _opened(connection, references)
    drawn = mermaid(blobs, Selection(package_name, minimum_edge), dialect=compat, v0_semantics=draw_v0_semantics)
    for warning in drawn.warnings:
        print_warning(warning)
    sys.stdout.write(drawn.text)


def _opened(connection: Connection, references: list[str]) -> Blobs:
    from opmkit.index.catalog.blobs import Blobs
    from opmkit.index.catalog.open import open_blobs

    tool = made_once(connection.tool)
    return Blobs.of(blob for reference in references for blob in open_blobs(tool, reference))


ALPHA = (("render-graph", render_graph),)
