"""File-based catalogs as values: packages with channels of entries, and bundles, each by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.json_types import JsonResult
from opmkit.index.fbc.check.catalog import check_blobs, group_by_package
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.display_name import display_name
from opmkit.index.fbc.findings import raise_findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.index.fbc.blobs import Blobs, BundleBlob, EntryBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs


@dataclass(frozen=True, slots=True)
class Channel(JsonResult):
    """A channel with its entries by name."""

    name: str
    entries: Mapping[str, EntryBlob]

    @property
    def heads(self) -> tuple[str, ...]:
        """Return the sorted names that no entry replaces or skips; a valid channel has exactly one."""
        return channel_heads(self.entries.values())


@dataclass(frozen=True, slots=True)
class Package(JsonResult):
    """A package with its channels and bundles by name; ``display_name`` is that of the default channel's head."""

    name: str
    default_channel: str
    channels: Mapping[str, Channel]
    bundles: Mapping[str, BundleBlob]
    display_name: str = ""

    @classmethod
    def from_blobs(cls, blobs: PackageBlobs) -> Package:
        """Build a package from its blobs, which must be valid."""
        (package,) = blobs.packages
        channels = {
            channel.name: Channel(channel.name, {entry.name: entry for entry in channel.entries})
            for channel in sorted(blobs.channels, key=lambda channel: channel.name)
        }
        bundles = {bundle.name: bundle for bundle in blobs.bundles}
        (head,) = channels[package.default_channel].heads
        return cls(package.name, package.default_channel, channels, bundles, display_name(bundles[head]))


@dataclass(frozen=True, slots=True)
class Catalog(JsonResult):
    """All packages by name."""

    packages: Mapping[str, Package] = field(default_factory=dict)

    @classmethod
    def from_blobs(cls, blobs: Blobs, compat: CatalogCompat = CatalogCompat.NEWEST) -> Catalog:
        """Validate blobs and build the catalog that they describe.

        Raises:
            InvalidCatalog: The blobs break rules of that release; the error lists all findings.
        """
        raise_findings(check_blobs(blobs, compat))
        return cls({package.name: Package.from_blobs(package) for package in group_by_package(blobs)})
