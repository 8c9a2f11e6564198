"""File-based catalogs as values: packages with channels of entries, and bundles with versions, each by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.versions import VersionKey, VersionRange, strict_version, version_key
from opmkit.core.json_types import JsonResult
from opmkit.documents.fields import member
from opmkit.index.fbc.blobs import PACKAGE
from opmkit.index.fbc.check.catalog import check_blobs, group_by_package
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.packages import display_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.index.fbc.blobs import Blobs, BundleBlob, EntryBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs


class Channel(JsonResult, Struct, frozen=True):
    """A channel with its entries by name."""

    name: str
    entries: Mapping[str, EntryBlob]

    @property
    def heads(self) -> tuple[str, ...]:
        """Return the sorted names that no entry replaces or skips; a valid channel has exactly one."""
        return channel_heads(self.entries.values())


class Package(JsonResult, Struct, frozen=True):
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


MIN_VERSION_KEY = version_key(strict_version("0.0.0"))
"""The key of bundles that the catalog does not contain."""


def version_text(bundle: BundleBlob) -> str:
    """Return the version of a bundle.

    Raises:
        ValueError: It does not have exactly one property with a version.
    """
    values = list(bundle.property_values(PACKAGE))
    if len(values) != 1:
        raise ValueError(f"{len(values)} properties of type {PACKAGE} instead of one")
    version = member(values[0], "version") if isinstance(values[0], dict) else None
    if not isinstance(version, str):
        raise ValueError(f"property of type {PACKAGE} without a version")
    return version


def version_keys(bundles: Iterable[BundleBlob], *, lenient: bool = False) -> dict[str, VersionKey]:
    """Return the version keys of bundles by name; of several bundles with one name the first is used.

    Args:
        bundles: The bundles.
        lenient: Whether to omit bundles without a valid version.

    Raises:
        InvalidCatalog: Bundles have no valid version; the error lists all of them.
    """
    keys: dict[str, VersionKey] = {}
    findings: list[CatalogFinding] = []
    for bundle in bundles:
        if bundle.name not in keys:
            try:
                keys[bundle.name] = version_key(strict_version(version_text(bundle)))
            except ValueError as error:
                finding = CatalogFinding(f"invalid version: {error}", package=bundle.package, bundle=bundle.name)
                findings.append(finding.at(bundle.location))
    if not lenient:
        raise_findings(findings)
    return keys


def parse_range(text: str) -> VersionRange:
    """Parse a version range of which no alternative is empty.

    Raises:
        ValueError: The range is invalid.
    """
    parsed = VersionRange.parse(text)
    if not parsed.is_complete:
        raise ValueError("an alternative is empty")
    return parsed
