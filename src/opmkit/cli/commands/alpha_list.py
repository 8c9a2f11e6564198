"""``opm alpha list``: list the contents of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.output import ListOutput
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import ListFormat, print_listing
from opmkit.cli.output.fbc import CompatOption
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

Index = Annotated[str, typer.Argument(metavar="INDEX", help=INDEX_HELP)]
Package = Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Package to list; default: all")]


def packages(
    registry_flags: RegistryFlags,
    index: Index,
    output: ListOutput = ListFormat.TEXT,
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """List the packages of an index

    [bold]Example:[/] opm alpha list packages quay.io/me/catalog:1
    """
    with waiting(f"Loading {index}"):
        rows = registry_flags.opm().list_packages(index, compat=compat)
    _print_rows(rows, ("NAME", "DISPLAY NAME", "DEFAULT CHANNEL"), output)


def channels(
    registry_flags: RegistryFlags,
    index: Index,
    package: Package = "",
    output: ListOutput = ListFormat.TEXT,
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """List the channels of an index or a package with their heads

    [bold]Example:[/] opm alpha list channels index.db lagoon-operator
    """
    with waiting(f"Loading {index}"):
        rows = registry_flags.opm().list_channels(index, package, compat=compat)
    _print_rows(rows, ("PACKAGE", "CHANNEL", "HEAD"), output)


def bundles(
    registry_flags: RegistryFlags,
    index: Index,
    package: Package = "",
    output: ListOutput = ListFormat.TEXT,
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """List the bundles of an index or a package with their update edges in each channel

    [bold]Example:[/] opm alpha list bundles ./catalog lagoon-operator --output json
    """
    with waiting(f"Loading {index}"):
        rows = registry_flags.opm().list_bundles(index, package, compat=compat)
    _print_rows(rows, ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"), output)


def _print_rows(rows: Sequence[Any], header: Sequence[str], output: ListFormat) -> None:
    """Print dataclasses whose fields are the columns."""
    from dataclasses import astuple

    cells = (tuple(map(_format_cell, astuple(row))) for row in rows)
    optional = ["IMAGE", "SKIP RANGE", "DISPLAY NAME", "SKIPS"]
    if "BUNDLE" in header:
        optional.append("PACKAGE")  # names of bundles contain it
    print_listing(rows, header, cells, output, optional=optional)


def _format_cell(value: str | tuple[str, ...]) -> str:
    return ",".join(value) if isinstance(value, tuple) else value
