"""``opm alpha list``: what an index holds."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit.cli.console import Output, OutputFormat, print_json, print_table
from opmkit.cli.params import Connection

Index = Annotated[str, typer.Argument(metavar="INDEX", help="An index image or a database file.")]
Package = Annotated[str | None, typer.Argument(metavar="[PACKAGE]", help="Only this package.")]


def packages(connection: Connection, index: Index, output: Output = OutputFormat.TEXT) -> None:
    """List the packages of an index.

    [bold]Example:[/] opm alpha list packages quay.io/me/catalog:1
    """
    from opmkit.index.listing import list_packages, open_catalog

    rows = list_packages(open_catalog(connection.tool, index))
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    print_table(
        ("NAME", "DISPLAY NAME", "DEFAULT CHANNEL"), [(r.name, r.display_name, r.default_channel) for r in rows]
    )
