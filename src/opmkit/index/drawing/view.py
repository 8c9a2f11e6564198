"""What people look at: the packages of a catalog, with their channels and bundles and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.index.drawing.layout import ChannelLayout, layout_channel
from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.versions import version_keys, version_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, DeprecationsBlob


@dataclass(frozen=True, slots=True)
class PackageView:
    """A package: channels and bundles by name, and the messages of deprecation by schema and name."""

    name: str
    default_channel: str
    description: str
    channels: Sequence[ChannelBlob]
    bundles: Mapping[str, BundleBlob]
    deprecations: Mapping[tuple[str, str], str]
    keys: Mapping[str, VersionKey] = field(repr=False)

    def layouts(self) -> Iterator[tuple[ChannelBlob, ChannelLayout]]:
        """The channels, each laid out."""
        return ((channel, layout_channel(channel, self.keys)) for channel in self.channels)

    @property
    def deprecation(self) -> str:
        """Why the package is deprecated, "" if it is not."""
        return self.deprecations.get((schemas.PACKAGE, ""), "")

    def channel_deprecation(self, name: str) -> str:
        """Why the channel is deprecated, "" if it is not."""
        return self.deprecations.get((schemas.CHANNEL, name), "")

    def bundle_deprecation(self, name: str) -> str:
        """Why the bundle is deprecated, "" if it is not."""
        return self.deprecations.get((schemas.BUNDLE, name), "")

    def version(self, name: str) -> str:
        """The version of the bundle, "" if it has none or there is no such bundle."""
        try:
            return version_text(self.bundles[name])
        except (KeyError, ValueError):
            return ""


def package_views(blobs: Blobs, package: str = "", channel: str = "") -> list[PackageView]:
    """The packages of a catalog, by name, or one of them, or one channel of it.

    Raises:
        UnknownPackage: there is no such package.
        CatalogError: the package does not have that channel.
    """
    names = sorted({blob.package for blob in blobs if blob.package and not isinstance(blob, schemas.OtherBlob)})
    if package and package not in names:
        known = ", ".join(names) or "none"
        raise UnknownPackage(f'package "{package}" not found', advice=f"The packages of this catalog are: {known}.")
    parts = _by_package(blobs)
    found = [_package(name, parts[name]) for name in names if package in ("", name)]
    if channel:
        found = [_only(one, channel) for one in found]
    return found


def _by_package(blobs: Blobs) -> Mapping[str, Blobs]:
    parts: dict[str, list[schemas.Blob]] = {}
    for blob in blobs:
        parts.setdefault(blob.package, []).append(blob)
    return {name: schemas.Blobs.from_blobs(members) for name, members in parts.items()}


def _package(name: str, blobs: Blobs) -> PackageView:
    told = blobs.packages[0] if blobs.packages else schemas.PackageBlob(name)
    bundles: dict[str, BundleBlob] = {}
    for bundle in blobs.bundles:
        bundles.setdefault(bundle.name, bundle)
    return PackageView(
        name,
        told.default_channel,
        told.description,
        sorted(blobs.channels, key=lambda channel: channel.name),
        bundles,
        _deprecations(blobs.deprecations),
        version_keys(blobs.bundles, lenient=True),
    )


def _deprecations(blobs: Sequence[DeprecationsBlob]) -> dict[tuple[str, str], str]:
    return {(one.schema, one.name): one.message or "deprecated" for blob in blobs for one in blob.entries}


def _only(package: PackageView, channel: str) -> PackageView:
    channels = [one for one in package.channels if one.name == channel]
    if not channels:
        known = ", ".join(one.name for one in package.channels) or "none"
        raise CatalogError(f'package "{package.name}" has no channel "{channel}"', advice=f"Its channels are: {known}.")
    return replace(package, channels=channels)
