"""``opm alpha list``: what an index holds."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit.cli.console import Output, OutputFormat, print_json, print_table
from opmkit.cli.params import Connection

Index = Annotated[str, typer.Argument(metavar="INDEX", help="An index image, or a database file.")]
Package = Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Only this package.")]


def packages(connection: Connection, index: Index, output: Output = OutputFormat.TEXT) -> None:
    """List the packages of an index.

    [bold]Example:[/] opm alpha list packages quay.io/me/catalog:1
    """
    from opmkit.index.catalog import load_catalog
    from opmkit.index.listing import list_packages
    from opmkit.index.open import open_index

    with open_index(connection.tool, index) as database:
        rows = list_packages(load_catalog(database))
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    cells = [(row.name, row.display_name, row.default_channel) for row in rows]
    print_table(("NAME", "DISPLAY NAME", "DEFAULT CHANNEL"), cells)


def channels(connection: Connection, index: Index, package: Package = "", output: Output = OutputFormat.TEXT) -> None:
    """List the channels of an index, or of one of its packages, with their heads.

    [bold]Example:[/] opm alpha list channels index.db lagoon-operator
    """
    from opmkit.index.catalog import load_catalog
    from opmkit.index.listing import list_channels
    from opmkit.index.open import open_index

    with open_index(connection.tool, index) as database:
        rows = list_channels(load_catalog(database), package)
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    print_table(("PACKAGE", "CHANNEL", "HEAD"), [(row.package, row.channel, row.head) for row in rows])


def bundles(connection: Connection, index: Index, package: Package = "", output: Output = OutputFormat.TEXT) -> None:
    """List the bundles of an index, or of one of its packages, with the update graph of each channel.

    [bold]Example:[/] opm alpha list bundles quay.io/me/catalog:1 lagoon-operator --output json
    """
    from opmkit.index.catalog import load_catalog
    from opmkit.index.listing import list_bundles
    from opmkit.index.open import open_index

    with open_index(connection.tool, index) as database:
        rows = list_bundles(load_catalog(database), package)
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    header = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")
    cells = [
        (row.package, row.channel, row.bundle, row.replaces, ",".join(row.skips), row.skip_range, row.image)
        for row in rows
    ]
    print_table(header, cells)


COMMANDS = (("packages", packages), ("channels", channels), ("bundles", bundles))
