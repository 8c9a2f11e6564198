"""Operations on indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.progress import Progress
    from opmkit.index.change import Change
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.build import BuiltIndex, IndexPlan
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.add.options import AddOptions


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
        progress: Progress = NO_PROGRESS,
    ) -> BuiltIndex:
        """Pull bundle images, add them to an index, and publish the new index as ``plan`` says.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        from opmkit.index.operations.add.change import AddBundles
        from opmkit.index.operations.add.options import AddOptions

        return self.change_index(AddBundles(self._tool, images, options or AddOptions()), plan, progress=progress)

    def build_index(self, plan: IndexPlan, *, progress: Progress = NO_PROGRESS) -> BuiltIndex:
        """Validate the index ``plan.from_index``, and publish it as ``plan`` says, otherwise unchanged.

        Raises:
            InvalidCatalog: The index is invalid; the error lists each finding with its file and line.
            IndexMoved: Another writer has moved the tag.
            CatalogError, ImageToolsError: Nothing was changed.
        """
        from opmkit.index.operations.require_valid import RequireValid

        return self.change_index(RequireValid(plan.from_index or ""), plan, progress=progress)

    def change_index(self, change: Change, plan: IndexPlan, *, progress: Progress = NO_PROGRESS) -> BuiltIndex:
        """Change an index, and publish the new index as ``plan`` says, completely or not at all.

        Raises:
            IndexMoved: Another writer has moved the tag.
            CatalogError, BundleError, ImageToolsError: Nothing was changed.
        """
        from opmkit.index.image.build import build_index

        return build_index(self._tool, self._build_tool, plan, change, progress=progress)

    def render(self, references: Sequence[str]) -> Blobs:
        """Return bundles and indexes as one file-based catalog.

        Args:
            references: Bundle directories and images, catalog directories, index images, and database files.

        Raises:
            InvalidCatalog: A catalog cannot be read; the error lists each finding with its file and line.
            CatalogError, BundleError, ImageToolsError: Another reference cannot be read.
        """
        from opmkit.index.render import render

        return render(lambda: self._registry_tool, references)
