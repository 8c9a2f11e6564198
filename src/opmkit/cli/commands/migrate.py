"""``opm migrate``: convert an index to a file-based catalog in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.fbc import CatalogFormat, CatalogOutput, CompatOption, MigrateLevel, parse_level
from opmkit.cli.progress.command import progress


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
    from opmkit import MigrateOptions

    options = MigrateOptions(output, parse_level(migrate_level, compat), compat)
    opm = registry_flags.opm()
    with progress(f"Converting {index}") as bars:
        migrated = opm.migrate_index(index, directory, options, progress=bars)
    if migrated.omitted:
        print_warning(f"{migrated.omitted} documents are omitted, as by opm {compat}")
