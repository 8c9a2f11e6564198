"""``opm alpha render-graph`` and ``opm index graph``: draw the update graphs of indexes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import UsageError, similar_names
from opmkit.cli.output.fbc import CompatOption, print_drawing, refuse_terminal
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import waiting
from opmkit.core.files import check_output


def render_graph(
    ctx: typer.Context,
    *,
    references: list[str] | None = argument(None, INDEX_HELP, metavar="REF..."),
    minimum_edge: str = flag("", "Bundle whose package to draw, from its version upwards", metavar="BUNDLE"),
    package_name: str = flag("", "Package to draw; default: all", "-p", metavar="NAME"),
    draw_v0_semantics: bool = flag(False, "Mark skipped bundles, and updates that are never used"),
    compat: CompatOption = CatalogCompat.NEWEST,
    registry_flags: RegistryFlags,
) -> None:
    """Print the update graphs of indexes, which may be invalid, as mermaid text

    [bold]Example:[/] opm alpha render-graph ./catalog -p lagoon-operator > graph.mmd
    """
    if not references:
        raise UsageError("requires at least 1 arg(s), only received 0", ctx.command_path)
    opm = registry_flags.opm()
    with waiting(f"Loading {', '.join(references)}"):
        drawing = opm.draw_mermaid(
            references, package_name, minimum_edge, compat=compat, v0_semantics=draw_v0_semantics
        )
    print_drawing(drawing)


class GraphFormat(StrEnum):
    """Output formats of a drawing."""

    HTML = "html"
    SVG = "svg"
    DOT = "dot"
    MERMAID = "mermaid"


def graph(
    *,
    reference: Annotated[str, typer.Argument(metavar="REF", help=INDEX_HELP)],
    package: str = argument("", "Package to draw; default: all", metavar="[PACKAGE]"),
    channel: str = flag("", "Channel of the package to draw; default: all", metavar="NAME"),
    output: str = flag(
        "html",
        "Output format: html (an interactive page), svg, dot (Graphviz) or mermaid; or a file, such as catalog.html",
        "-o",
        metavar="FORMAT|FILE",
    ),
    registry_flags: RegistryFlags,
) -> None:
    """Draw the update graphs of an index: channels, replaces and skips edges, and deprecations

    The page works offline. The index may be invalid: the page shows the findings.

    [bold]Examples:[/]
      opm index graph quay.io/me/catalog:1 -o catalog.html
      opm index graph ./catalog lagoon-operator --channel stable -o svg > stable.svg
      opm index graph index.db lagoon-operator -o dot | dot -Tpdf > lagoon.pdf
    """
    if channel and not package:
        raise UsageError("--channel requires a package", "opm index graph")
    form, file = _parse_output(output)
    if file is None:
        refuse_terminal(form.value, "opm index graph", "pass a file, such as --output graph.html")
    else:
        check_output(file)
    opm = registry_flags.opm()
    with waiting(f"Loading {reference}"):
        drawing = opm.draw_graph(reference, package, channel, form=form.value)
    print_drawing(drawing, file)


_SUFFIXES = {".html": GraphFormat.HTML, ".svg": GraphFormat.SVG, ".dot": GraphFormat.DOT, ".mmd": GraphFormat.MERMAID}


def _parse_output(output: str) -> tuple[GraphFormat, Path | None]:
    """Return the format that ``--output`` names, or that of the file that it names, and the file."""
    if output in list(GraphFormat):
        return GraphFormat(output), None
    file = Path(output)
    if form := _SUFFIXES.get(file.suffix):
        return form, file
    raise UsageError(
        f'invalid value of --output: "{output}"',
        "opm index graph",
        hint=f"use {', '.join(GraphFormat)}, or the name of a file that ends with {', '.join(_SUFFIXES)}",
        similar=similar_names(output, GraphFormat),
    )
