"""``opm alpha list``: what a catalog of either kind holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.console import ValueFormat, ValueOutput, print_table, print_value
from opmkit.cli.fbc_output import CompatOption
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.model import Catalog

Index = Annotated[
    str, typer.Argument(metavar="INDEX", help="A catalog directory, a database file, or an index image of either.")
]
Package = Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Only this package.")]


def packages(
    connection: Connection, index: Index, output: ValueOutput = ValueFormat.TEXT, compat: CompatOption = Compat.NEWEST
) -> None:
    """List the packages of a catalog.

    [bold]Example:[/] opm alpha list packages quay.io/me/catalog:1
    """
    from opmkit.index.operations.list import list_packages

    rows = list_packages(_open(connection, index, compat))
    _print(rows, ("NAME", "DISPLAY NAME", "DEFAULT CHANNEL"), output)


def channels(
    connection: Connection,
    index: Index,
    package: Package = "",
    output: ValueOutput = ValueFormat.TEXT,
    compat: CompatOption = Compat.NEWEST,
) -> None:
    """List the channels of a catalog, or of one of its packages, with their heads.

    [bold]Example:[/] opm alpha list channels index.db lagoon-operator
    """
    from opmkit.index.operations.list import list_channels

    rows = list_channels(_open(connection, index, compat), package)
    _print(rows, ("PACKAGE", "CHANNEL", "HEAD"), output)


def bundles(
    connection: Connection,
    index: Index,
    package: Package = "",
    output: ValueOutput = ValueFormat.TEXT,
    compat: CompatOption = Compat.NEWEST,
) -> None:
    """List the bundles of a catalog, or of one of its packages, with the update graph of each channel.

    [bold]Example:[/] opm alpha list bundles ./catalog lagoon-operator --output json
    """
    from opmkit.index.operations.list import list_bundles

    rows = list_bundles(_open(connection, index, compat), package)
    _print(rows, ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"), output)


def _open(connection: Connection, index: str, compat: Compat) -> Catalog:
    from opmkit.index.image.source import IndexSource

    return IndexSource.resolve(made_once(connection.tool), index).catalog(compat)


def _print(rows: Sequence[Any], header: Sequence[str], output: ValueFormat) -> None:
    """Print rows, whose fields are the columns in their order."""
    from dataclasses import astuple

    if output is ValueFormat.TEXT:
        print_table(header, [tuple(map(_cell, astuple(row))) for row in rows])
    else:
        print_value(rows, output)


def _cell(value: str | tuple[str, ...]) -> str:
    return ",".join(value) if isinstance(value, tuple) else value


COMMANDS = (("packages", packages), ("channels", channels), ("bundles", bundles))
