"""Operations on indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.api.signatures import index_verifier, verified_bundles
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.index.change import AppliedChange, Change
    from opmkit.index.image.plan import BuiltIndex, IndexPlan
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.add.options import AddOptions
    from opmkit.index.operations.update import IndexUpdate


class IndexOperations(Session):
    """Operations on indexes."""

    def open_index(self, index: str) -> IndexSource:
        """Find an index: an index image, a catalog directory, or a database file.

        Raises:
            CatalogError: The path does not exist, or the reference is not that of an index.
            ImageToolsError: The image does not exist, or its registry cannot be asked.
        """
        from opmkit.index.image.source import INDEXES, IndexSource

        source = IndexSource.resolve(lambda: self._registry_tool, index)
        source.require(INDEXES)
        return source

    def add_bundles(
        self,
        images: Sequence[str],
        plan: IndexPlan,
        options: AddOptions | None = None,
        *,
        require_signature: str | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltIndex:
        """Pull bundle images, add them to an index, and publish the new index as ``plan`` says.

        Args:
            images: Bundle images and directories, or ``SOURCE=IMAGE``.
            plan: The index to change, and the destination of the new one.
            options: Options of adding bundles.
            require_signature: File of a public key that must have signed the bundle images, or of a policy.json, which
                applies to the index of the plan as well.
            progress: Receiver of progress reports.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        from opmkit.bundle.pull import BundleFetcher

        tool = self._tool
        verified = verified_bundles(images, require_signature, lambda: self._client)
        with BundleFetcher(
            tool, verified
        ) as fetcher:  # while the modules for the change are imported, and the index is read
            from opmkit.index.operations.add.change import AddBundles
            from opmkit.index.operations.add.options import AddOptions

            change = AddBundles(tool, verified, options or AddOptions(), progress, fetcher)
            return self.change_index(change, self._verified(plan, require_signature), progress=progress)

    def update_index(
        self,
        update: IndexUpdate,
        plan: IndexPlan,
        *,
        require_signature: str | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltIndex:
        """Make several changes of an index at once, and publish the new index as ``plan`` says.

        Args:
            update: The changes.
            plan: The index to change, and the destination of the new one.
            require_signature: File of a public key or of a policy.json, as for `add_bundles`.
            progress: Receiver of progress reports.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        tool = self._tool
        if update.add is not None:
            update = replace(update, add=verified_bundles(update.add, require_signature, lambda: self._client))
        change = update.change(tool, progress)
        return self.change_index(change, self._verified(plan, require_signature), progress=progress)

    def build_index(self, plan: IndexPlan, *, progress: Progress = NO_PROGRESS) -> BuiltIndex:
        """Validate the index ``plan.from_index``, and publish it as ``plan`` says, otherwise unchanged.

        Raises:
            InvalidCatalog: The index is invalid; the error lists each finding with its file and line.
            IndexMoved: Another writer has moved the tag.
            CatalogError, ImageToolsError: Nothing was changed.
        """
        from opmkit.index.fbc.csv_metadata import MigrationLevel
        from opmkit.index.image.source import IndexSource
        from opmkit.index.operations.gate import RequireValid

        name = plan.from_index or ""
        source = IndexSource.find(lambda: self._tool, name, build_context=True)
        if source.path:
            source.check_readable()
        return self.change_index(RequireValid(name, plan.level or MigrationLevel.NONE), plan, progress=progress)

    def change_index(self, change: Change, plan: IndexPlan, *, progress: Progress = NO_PROGRESS) -> BuiltIndex:
        """Change an index, and publish the new index as ``plan`` says, completely or not at all.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        from opmkit.index.image.build import build_index

        if plan.plan_updates:
            change = _with_plan(change)
        return build_index(self._tool, self._build_tool, plan, change, progress=progress)

    def _verified(self, plan: IndexPlan, required: str | None) -> IndexPlan:
        return replace(plan, verify=index_verifier(required, self._client)) if required is not None else plan

    def add_to_database(
        self,
        images: Sequence[str],
        database: Path,
        options: AddOptions | None = None,
        *,
        require_signature: str | None = None,
        dry_run: bool = False,
        plan_updates: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> AppliedChange:
        """Pull bundle images, and add them to an index database, which is created if it does not exist.

        Args:
            images: Bundle images and directories, or ``SOURCE=IMAGE``.
            database: The database file.
            options: Options of adding bundles.
            require_signature: File of a public key that must have signed the images, or of a policy.json.
            dry_run: Change a copy, and return what would change.
            plan_updates: Whether the result says what clusters do with the changed index.
            progress: Receiver of progress reports.

        Raises:
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        from opmkit.bundle.pull import BundleFetcher

        tool = self._tool
        verified = verified_bundles(images, require_signature, lambda: self._client)
        with BundleFetcher(tool, verified) as fetcher:  # while modules are imported
            from opmkit.index.change import change_database
            from opmkit.index.operations.add.change import AddBundles
            from opmkit.index.operations.add.options import AddOptions

            change: Change = AddBundles(tool, verified, options or AddOptions(), progress, fetcher)
            return change_database(database, _with_plan(change) if plan_updates else change, dry_run=dry_run)

    def initialize_database(
        self, manifests: Path, database: Path, *, permissive: bool = False, dry_run: bool = False
    ) -> AppliedChange:
        """Load package manifests, the format that preceded bundle images, into a database, which is created if missing.

        Args:
            manifests: Directory of package or bundle directories.
            database: The database file.
            permissive: Load what can be loaded; the result names the failures.
            dry_run: Change a copy, and return what would change.

        Raises:
            CatalogError, BundleError: Nothing was changed.
        """
        from opmkit.index.change import change_database
        from opmkit.index.operations.initialize.loader import InitializeDatabase

        return change_database(database, InitializeDatabase(manifests, permissive), dry_run=dry_run)

    def change_database(
        self, change: Change, database: Path, *, dry_run: bool = False, plan_updates: bool = False
    ) -> AppliedChange:
        """Change an index database atomically; with ``dry_run``, change a copy.

        With ``plan_updates``, the result says what clusters do with the changed index.

        Raises:
            CatalogError: The file does not exist, is invalid, or the change failed. Nothing was changed.
        """
        from opmkit.index.change import change_database

        return change_database(
            database, _with_plan(change) if plan_updates else change, must_exist=True, dry_run=dry_run
        )

    def export_packages(
        self, index: str, directory: Path, packages: Sequence[str] = (), *, progress: Progress = NO_PROGRESS
    ) -> None:
        """Write packages of an index to a directory in the package manifest format.

        Args:
            index: Index image, catalog directory or database file.
            directory: Directory to write to.
            packages: Names of packages, by default all.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The index cannot be read, or a package cannot be exported.
            BundleError, ImageToolsError: A bundle cannot be read.
        """
        from opmkit.index.image.source import IndexSource
        from opmkit.index.operations.export import export_index

        source = IndexSource.find(lambda: self._tool, index, build_context=True)
        export_index(source, directory, self._tool, packages, progress=progress)


def _with_plan(change: Change) -> Change:
    from opmkit.index.operations.plan import PlannedChange

    return PlannedChange(change)
