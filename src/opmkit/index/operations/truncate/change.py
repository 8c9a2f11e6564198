"""The change that deprecates bundles and removes the versions below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.change import Change, ChangeResult, EditResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class TruncateBundles(Change):
    """Deprecate the bundles of these images and remove what they replace or skip."""

    images: Sequence[str]
    permissive: bool = False
    allow_package_removal: bool = False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Deprecate the bundles of a database."""
        from opmkit.index.operations.truncate.sqlite import truncate_bundles

        result = truncate_bundles(
            database, self.images, permissive=self.permissive, allow_package_removal=self.allow_package_removal
        )
        return ChangeResult(failures=result.failures)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Deprecate the bundles of a file-based catalog."""
        from opmkit.index.operations.truncate.fbc import truncate_bundles

        return truncate_bundles(
            blobs, self.images, permissive=self.permissive, allow_package_removal=self.allow_package_removal
        )
