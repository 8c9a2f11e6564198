"""Merge indexes of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.change import AppliedChange, CatalogChange, EditResult
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.directory import require_empty, write_catalog
from opmkit.index.fbc.migrate import MigrationLevel, migrate
from opmkit.index.fbc.write import to_json
from opmkit.index.image.source import IndexSource
from opmkit.index.operations.merge.fbc import merge_catalogs
from opmkit.index.operations.merge.result import NamedCatalog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.operations.merge.owners import Owners


@dataclass(frozen=True, slots=True)
class MergeIndexes(CatalogChange):
    """Fill a new file-based catalog with the packages of several indexes.

    See :func:`opmkit.index.operations.merge.fbc.merge_catalogs`. Databases are converted, and bundles are migrated to
    ``level`` before packages are compared.
    """

    tool: ContainerTool
    sources: Sequence[str]
    progress: Progress
    prefer: Sequence[str] = ()
    level: MigrationLevel = MigrationLevel.NONE
    owners: Owners | None = None

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Read the sources and merge them; ``blobs`` is the new catalog, which is empty."""
        found = [IndexSource.find(lambda: self.tool, name, build_context=True) for name in self.sources]
        self.progress.begin("Reading indexes", len(found), "indexes")
        try:
            catalogs = [self._read(source) for source in found]
        finally:
            self.progress.end()
        result = merge_catalogs(catalogs, self.prefer, self.owners)
        warnings = self.owners.warnings(self.sources) if self.owners else ()
        return EditResult(blobs + result.blobs, warnings=warnings, report=result)

    def _read(self, source: IndexSource) -> NamedCatalog:
        blobs = migrate(source.blobs(), self.level)
        self.progress.advance(1)
        return NamedCatalog(source.text, blobs)

    def write(self, directory: Path, *, dry_run: bool = False) -> AppliedChange:
        """Write the merged catalog to a directory that is empty or does not exist; with ``dry_run``, write nothing.

        Raises:
            CatalogError: the directory is not empty, or the indexes cannot be merged.
            ImageToolsError: an image cannot be read.
        """
        require_empty(directory)
        edit = self.apply_to_catalog(Blobs())
        if not dry_run:
            write_catalog(edit.blobs, directory, "json", to_json)
        return AppliedChange.from_result(diff_blobs(Blobs(), edit.blobs), edit)
