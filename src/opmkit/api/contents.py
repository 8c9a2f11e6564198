"""Operations that move packages between indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.index.image.plan import BuiltIndex, IndexPlan


class ContentOperations(Session):
    """Operations that move packages between indexes."""

    def merge_indexes(
        self,
        indexes: Sequence[str],
        plan: IndexPlan,
        *,
        prefer: Sequence[str] = (),
        owners: Path | None = None,
        output: Path | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltIndex:
        """Merge indexes into one file-based catalog, and publish it as ``plan`` says. Packages are copied whole.

        Args:
            indexes: Index images, catalog directories and database files.
            plan: Destination of the new index, without ``from_index``.
            prefer: Indexes to copy a package from if its content differs: ``[PACKAGE=]INDEX``, ``first`` or ``last``.
            owners: YAML file with the packages that each index may have or change.
            output: New or empty directory to write the catalog to, instead of an image.
            progress: Receiver of progress reports.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError: Packages have different content without a preference, or an index is invalid.
            ImageToolsError: An image cannot be read or written. Nothing was changed.
            ValueError: The plan has a ``from_index``, or is to rebase.
        """
        from opmkit.index.fbc.csv_metadata import MigrationLevel
        from opmkit.index.image.build import build_index
        from opmkit.index.image.plan import BuiltIndex
        from opmkit.index.operations.merge.merge import MergeIndexes
        from opmkit.index.operations.merge.owners import read_owners

        if plan.from_index:
            raise ValueError("from_index is unsupported: pass all indexes to merge")
        _check_rebase(plan)
        owned = read_owners(owners) if owners else None
        level = plan.level or MigrationLevel.NONE
        change = MergeIndexes(self._tool, indexes, progress, prefer, level, owned)
        if output:
            return BuiltIndex((), "", change.write(output, dry_run=plan.dry_run))
        return build_index(self._tool, self._build_tool, replace(plan, to_catalog=True), change, progress=progress)

    def copy_packages(
        self,
        packages: Sequence[str],
        source: str,
        plan: IndexPlan,
        *,
        dependencies: bool = True,
        prefer: Sequence[str] = (),
        output: Path | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltIndex:
        """Copy packages and the packages that they depend on to the index of ``plan``, and publish it.

        Args:
            packages: Packages, or parts of them: ``PACKAGE[:CHANNEL,...][@RANGE]``.
            source: Index to copy from.
            plan: Index to copy to, by default a new file-based catalog, and its destination.
            dependencies: Copy the packages that the copied ones depend on, unless the other index provides them.
            prefer: Indexes whose version is used if a package has different content in both: ``[PACKAGE=]INDEX``,
                ``first`` for the index of the plan, or ``last`` for ``source``.
            output: New or empty directory to write the catalog to, instead of an image.
            progress: Receiver of progress reports.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError: Packages have different content without a preference, or do not exist.
            ImageToolsError: An image cannot be read or written. Nothing was changed.
            ValueError: The plan is to rebase, but has no ``from_index``.
        """
        from opmkit.index.image.build import build_index
        from opmkit.index.image.plan import BuiltIndex
        from opmkit.index.image.source import IndexSource
        from opmkit.index.operations.copy.copy import NEW_TARGET, CopyPackages
        from opmkit.index.operations.filter.result import PackageFilter

        _check_rebase(plan)
        change = CopyPackages(
            IndexSource.find(lambda: self._tool, source, build_context=True),
            plan.from_index or NEW_TARGET,
            list(map(PackageFilter.parse, packages)),
            dependencies,
            prefer,
            plan.level,
        )
        if output:
            return BuiltIndex((), "", change.write(self._tool, plan.from_index, output, dry_run=plan.dry_run))
        plan = plan if plan.from_index else replace(plan, to_catalog=True)
        return build_index(self._tool, self._build_tool, plan, change, progress=progress)


def _check_rebase(plan: IndexPlan) -> None:
    """Raise ValueError if the change could not be applied again to an index that another writer has changed."""
    from opmkit.index.modes import OnConflict

    if plan.on_conflict is OnConflict.REBASE and not plan.from_index:
        raise ValueError("OnConflict.REBASE is unsupported: the new index replaces the old one")
