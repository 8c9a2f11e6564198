"""``opm registry``: make and change index databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import Output, OutputFormat, print_json, progress
from opmkit.cli.errors import print_warning
from opmkit.cli.params import Connection

if TYPE_CHECKING:
    from opmkit.index.build import Addition

Database = Annotated[Path, typer.Option("--database", "-d", metavar="FILE", help="Database file.")]


def add(
    connection: Connection,
    bundle_images: Annotated[
        list[str] | None, typer.Option("--bundle-images", "-b", metavar="IMAGE,...", help="Bundle images to add.")
    ] = None,
    database: Database = Path("bundles.db"),
    mode: Annotated[str, typer.Option(metavar="MODE", help="How the update graph is made: replaces.")] = "replaces",
    permissive: Annotated[bool, typer.Option("--permissive", help="Report failures as warnings; exit 0.")] = False,
    container_tool: Annotated[
        str, typer.Option("--container-tool", "-c", metavar="TOOL", help="Tool for pulling: none.")
    ] = "none",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add bundles to an index database; the file is made where there is none.

    Bundles are pulled in parallel. The file is replaced when all went well, and stays as it is otherwise.

    [bold]Examples:[/]

      opm registry add --database index.db --bundle-images quay.io/me/lagoon:0.1.0,quay.io/me/lagoon:0.2.0

      opm registry add -d index.db -b oci:bundles/lagoon:0.1.0
    """
    from opmkit.index.build import add_to_database

    with progress() as bars:
        result = add_to_database(
            connection.tool(container_tool),
            bundle_images or [],
            database,
            mode=mode,
            permissive=permissive,
            progress=bars,
        )
    print_addition(result)
    if output is OutputFormat.JSON:
        print_json(result)


def print_addition(addition: Addition) -> None:
    """Tell on stderr what came up, and what a permissive add passed over."""
    for warning in addition.warnings:
        print_warning(warning)
    for failure in addition.failures:
        print_warning(f"permissive mode, passed over: {failure.message}")


COMMANDS = (("add", add),)
