"""Copy packages from an index of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.change import AppliedChange, Change, ChangeResult, EditResult
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.directory import require_empty, write_catalog
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.fbc.packages import replace_packages
from opmkit.index.fbc.write import to_json
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource
from opmkit.index.operations.copy.plan import plan_copy
from opmkit.index.operations.merge.result import NamedCatalog
from opmkit.index.sqlite.removal import remove_package
from opmkit.index.sqlite.transfer import copy_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.operations.copy.result import CopyPlan
    from opmkit.index.operations.filter.package_filter import PackageFilter
    from opmkit.index.sqlite import IndexDatabase

NEW_TARGET = "the new index"
"""The name of a target without another name, for messages."""


@dataclass(frozen=True, slots=True)
class CopyPackages(Change):
    """Copy packages, and the packages that they depend on, from another index.

    See :func:`opmkit.index.operations.copy.plan.plan_copy`. Rows are copied from one database to another; otherwise the
    result is a file-based catalog.

    Attributes:
        source: the index to copy from.
        target: the name of the index that is changed, for messages and preferences.
        filters: the packages, or parts of them. A database can store whole packages only.
    """

    source: IndexSource
    target: str
    filters: Sequence[PackageFilter]
    dependencies: bool = True
    prefer: Sequence[str] = ()
    level: MigrationLevel | None = None

    @property
    def supports_databases(self) -> bool:
        """Whether rows can be copied: whole packages of another database."""
        self.source.require(INDEXES)
        return self.source.kind in DATABASES and not any(item.channels or item.version_range for item in self.filters)

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Copy rows."""
        self.check_database_support()
        with self.source.open() as content:
            if not isinstance(content, DatabaseContent):
                raise TypeError(f"{self.source.text}: not a database")
            with content.open() as source, database.transaction():
                plan = self._plan(database_to_blobs(source), database_to_blobs(database), MigrationLevel.NONE)
                for name in plan.packages:
                    remove_package(database, name)
                    copy_package(source, database, name)
        return ChangeResult(warnings=plan.warnings, report=plan.result)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Copy documents."""
        plan = self._plan(self.source.blobs(), blobs, self.level)
        return EditResult(replace_packages(blobs, plan.packages), warnings=plan.warnings, report=plan.result)

    def _plan(self, source: Blobs, target: Blobs, level: MigrationLevel | None) -> CopyPlan:
        return plan_copy(
            NamedCatalog(self.source.text, source),
            NamedCatalog(self.target, target),
            self.filters,
            dependencies=self.dependencies,
            prefer=self.prefer,
            level=level,
        )

    def write(
        self, tool: ContainerTool, target: str | None, directory: Path, *, dry_run: bool = False
    ) -> AppliedChange:
        """Write the target with the copied packages as a catalog to a directory that is empty or does not exist.

        Args:
            tool: the tool for the image of the target.
            target: the index to copy to, which is not changed; None for an empty one.
            directory: the directory.
            dry_run: whether to write nothing.

        Raises:
            CatalogError: the directory is not empty, or the packages cannot be copied.
            ImageToolsError: an image cannot be read.
        """
        require_empty(directory)
        before = IndexSource.find(lambda: tool, target, build_context=True).blobs() if target else Blobs()
        edit = self.apply_to_catalog(before)
        if not dry_run:
            write_catalog(edit.blobs, directory, "json", to_json)
        return AppliedChange.from_result(diff_blobs(before, edit.blobs), edit)
