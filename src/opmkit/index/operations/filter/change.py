"""The change that keeps parts of a file-based catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.change import CatalogChange, EditResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.filter.package_filter import PackageFilter


@dataclass(frozen=True, slots=True)
class FilterPackages(CatalogChange):
    """Keep the parts of a file-based catalog that match a filter, and the entries that their update graphs need.

    Attributes:
        filters: Packages, channels and versions to keep.
        default_channels: New default channels by package.
        with_dependencies: Keep the packages that retained bundles depend on.
        permissive: Report packages and channels that do not exist as warnings.
    """

    filters: Sequence[PackageFilter]
    default_channels: Mapping[str, str] = field(default_factory=dict)
    with_dependencies: bool = False
    permissive: bool = False

    @classmethod
    def parse(
        cls,
        filters: Sequence[str],
        *,
        default_channels: Mapping[str, str] | None = None,
        with_dependencies: bool = False,
        permissive: bool = False,
    ) -> FilterPackages:
        """Parse filters of the form ``PACKAGE[:CHANNEL,...][@RANGE]``; raises CatalogError."""
        from opmkit.index.operations.filter.package_filter import PackageFilter

        parsed = list(map(PackageFilter.parse, filters))
        return cls(parsed, default_channels or {}, with_dependencies, permissive)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Filter a file-based catalog."""
        from opmkit.index.operations.filter.fbc import filter_blobs

        result = filter_blobs(
            blobs,
            self.filters,
            default_channels=self.default_channels,
            with_dependencies=self.with_dependencies,
            permissive=self.permissive,
        )
        return EditResult(result.blobs, warnings=result.warnings, report=result)
