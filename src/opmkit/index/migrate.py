"""Conversion of an index to a directory with a file-based catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.json_types import JsonResult
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.convert.releases import migrated_index
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.write import require_empty, to_json, to_yaml, write_catalog
from opmkit.index.image.source import INDEXES
from opmkit.index.render import RenderOptions, render

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.image.source import GetRegistryTool


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """Options of converting an index to a directory.

    Attributes:
        file_format: ``json`` or ``yaml``.
        level: Level to which bundles are migrated.
        compat: Release of Go opm whose format is used.
    """

    file_format: str = "json"
    level: MigrationLevel = MigrationLevel.NONE
    compat: CatalogCompat = CatalogCompat.NEWEST


@dataclass(frozen=True, slots=True)
class MigratedCatalog(JsonResult):
    """A directory with a file-based catalog.

    Attributes:
        directory: The directory.
        omitted: Number of documents that the release to match omits.
    """

    directory: Path
    omitted: int


def migrate_index(
    tool: GetRegistryTool, index: str, directory: Path, options: MigrateOptions, *, progress: Progress = NO_PROGRESS
) -> MigratedCatalog:
    """Convert an index to a directory, which is created atomically; see `render` and `write_catalog` for errors."""
    require_empty(directory)
    rendering = RenderOptions(kinds=INDEXES, level=options.level, compat=options.compat)
    blobs = render(tool, [index], rendering, progress=progress)
    written = migrated_index(blobs, options.compat)
    encode = to_json if options.file_format == "json" else to_yaml
    write_catalog(written, directory, options.file_format, encode)
    return MigratedCatalog(directory, sum(1 for _ in blobs) - sum(1 for _ in written))
