"""``opm migrate``: convert an index to a file-based catalog in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.fbc import CatalogFormat, CatalogOutput, CompatOption, MigrateLevel, blob_encoder, parse_level
from opmkit.cli.progress.command import progress, waiting
from opmkit.core.lazy import call_once
from opmkit.index.fbc.compat import CatalogCompat


def migrate(
    *,
    index: Annotated[str, typer.Argument(metavar="INDEX", help=INDEX_HELP)],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory for the catalog")],
    output: CatalogOutput = CatalogFormat.JSON,
    migrate_level: MigrateLevel = "",
    compat: CompatOption = CatalogCompat.NEWEST,
    registry_flags: RegistryFlags,
) -> None:
    """Convert an index to a directory with a file-based catalog, one file per package

    The directory is created atomically.

    [bold]Example:[/] opm migrate quay.io/me/catalog:1 ./catalog
    """
    from opmkit.index.convert.releases import migrated_index
    from opmkit.index.fbc.directory import require_empty, write_catalog
    from opmkit.index.image.source import INDEXES
    from opmkit.index.render import RenderOptions
    from opmkit.index.render import render as rendered

    rendering = RenderOptions(kinds=INDEXES, level=parse_level(migrate_level, compat), compat=compat)
    require_empty(directory)
    with progress(f"Converting {index}") as bars:
        blobs = rendered(call_once(registry_flags.tool), [index], rendering, progress=bars)
        written = migrated_index(blobs, compat)
        omitted = sum(1 for _ in blobs) - sum(1 for _ in written)
    if omitted:
        print_warning(f"{omitted} documents are omitted, as by opm {compat}")
    with waiting(f"Writing {directory}"):
        write_catalog(written, directory, output, blob_encoder(output))
