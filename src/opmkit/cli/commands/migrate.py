"""``opm migrate``: an index as a directory with a file-based catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.console import progress
from opmkit.cli.fbc_output import CatalogFormat, CatalogOutput, MigrateLevel, level_named, writer
from opmkit.cli.registry_flags import Connection, made_once


def migrate(
    *,
    index: Annotated[
        str, typer.Argument(metavar="INDEX", help="A database file, an index image, or a catalog directory.")
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the catalog goes: an empty directory, or one to be made.")
    ],
    output: CatalogOutput = CatalogFormat.JSON,
    migrate_level: MigrateLevel = "",
    connection: Connection,
) -> None:
    """Convert an index to a directory with a file-based catalog, a file for each package.

    The directory comes to be as a whole, or not at all.

    [bold]Example:[/] opm migrate quay.io/me/catalog:1 ./catalog
    """
    from opmkit.index.fbc.directory import require_empty, write_catalog
    from opmkit.index.image.source import INDEXES
    from opmkit.index.render import RenderOptions
    from opmkit.index.render import render as rendered

    rendering = RenderOptions(kinds=INDEXES, level=level_named(migrate_level))
    require_empty(directory)
    with progress() as bars:
        blobs = rendered(made_once(connection.tool), [index], rendering, progress=bars)
    write_catalog(blobs, directory, output, writer(output))
