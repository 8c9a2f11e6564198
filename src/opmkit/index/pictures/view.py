"""The packages of a catalog that are drawn: selected and prepared for drawing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.hint_terms import BundleOperation
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.check.graph import natural_key
from opmkit.index.fbc.model import MIN_VERSION_KEY, parse_range, version_keys, version_text
from opmkit.index.pictures.layout import ChannelLayout, layout_channel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, DeprecationsBlob, EntryBlob


@dataclass(frozen=True, slots=True)
class PackageView:
    """A package, which may be invalid.

    Attributes:
        name: Its name.
        default_channel: The name of its default channel.
        description: Its description.
        channels: Its channels, in natural order of their names.
        bundles: Its bundles by name.
        deprecations: Messages of deprecations by schema and name.
        keys: The version keys of its bundles by name.
    """

    name: str
    default_channel: str
    description: str
    channels: Sequence[ChannelBlob]
    bundles: Mapping[str, BundleBlob]
    deprecations: Mapping[tuple[str, str], str]
    keys: Mapping[str, VersionKey] = field(repr=False)

    def layouts(self) -> Iterator[tuple[ChannelBlob, ChannelLayout]]:
        """Yield the channels with their layouts."""
        return ((channel, layout_channel(channel, self.keys)) for channel in self.channels)

    @property
    def deprecation(self) -> str:
        """Return the deprecation message of the package, or "" if it is not deprecated."""
        return self.deprecations.get((schemas.PACKAGE, ""), "")

    def channel_deprecation(self, name: str) -> str:
        """Return the deprecation message of a channel, or "" if it is not deprecated."""
        return self.deprecations.get((schemas.CHANNEL, name), "")

    def bundle_deprecation(self, name: str) -> str:
        """Return the deprecation message of a bundle, or "" if it is not deprecated."""
        return self.deprecations.get((schemas.BUNDLE, name), "")

    def version(self, name: str) -> str:
        """Return the version of a bundle, or "" if it is invalid or there is no such bundle."""
        try:
            return version_text(self.bundles[name])
        except (KeyError, ValueError):
            return ""


def package_views(blobs: Blobs, package: str = "", channel: str = "") -> list[PackageView]:
    """Return the packages of a catalog in natural order of their names: ``a9`` before ``a10``.

    Args:
        blobs: The catalog, which may be invalid.
        package: The only package to return, or "" for all.
        channel: The only channel to keep in each package, or "" for all.

    Raises:
        UnknownPackage: The package does not exist.
        CatalogError: A package does not have that channel.
    """
    packages = {blob.package for blob in blobs if blob.package and not isinstance(blob, schemas.OtherBlob)}
    names = sorted(packages, key=natural_key)
    if package and package not in names:
        known = ", ".join(names) or "none"
        raise UnknownPackage(f'package "{package}" not found', hint=f"The packages of this catalog are: {known}.")
    by_package = _group_by_package(blobs)
    views = [_view(name, by_package[name]) for name in names if package in ("", name)]
    return [_select_channel(view, channel) for view in views] if channel else views


def _group_by_package(blobs: Blobs) -> Mapping[str, Blobs]:
    groups: dict[str, list[schemas.Blob]] = {}
    for blob in blobs:
        groups.setdefault(blob.package, []).append(blob)
    return {name: schemas.Blobs.from_blobs(members) for name, members in groups.items()}


def _view(name: str, blobs: Blobs) -> PackageView:
    definition = blobs.packages[0] if blobs.packages else schemas.PackageBlob(name)
    bundles: dict[str, BundleBlob] = {}
    for bundle in blobs.bundles:
        bundles.setdefault(bundle.name, bundle)
    return PackageView(
        name,
        definition.default_channel,
        definition.description,
        sorted(blobs.channels, key=lambda channel: natural_key(channel.name)),
        bundles,
        _deprecation_messages(blobs.deprecations),
        version_keys(blobs.bundles, lenient=True),
    )


def _deprecation_messages(blobs: Sequence[DeprecationsBlob]) -> dict[tuple[str, str], str]:
    return {(entry.schema, entry.name): entry.message or "deprecated" for blob in blobs for entry in blob.entries}


def _select_channel(view: PackageView, name: str) -> PackageView:
    channels = [channel for channel in view.channels if channel.name == name]
    if not channels:
        known = ", ".join(channel.name for channel in view.channels) or "none"
        raise CatalogError(f'package "{view.name}" has no channel "{name}"', hint=f"Its channels are: {known}.")
    return replace(view, channels=channels)


class GraphFilter(Struct, frozen=True):
    """A filter of channels.

    Attributes:
        package: The package to select, or "" for all.
        minimum: A bundle, whose package is selected, without edges from lower versions; "" for no bundle.
    """

    package: str = ""
    minimum: str = ""

    def apply(self, channels: Iterable[ChannelBlob], keys: Mapping[str, VersionKey]) -> list[ChannelBlob]:
        """Return the selected channels with their selected entries, sorted by package and name.

        Args:
            channels: The channels of the catalog.
            keys: The version keys of its bundles by name.

        Raises:
            CatalogError: The minimum is not a bundle of the catalog.
        """
        ordered = sorted(channels, key=lambda channel: (channel.package, channel.name))
        if not (self.package or self.minimum):
            return ordered
        if self.minimum and self.minimum not in keys:
            raise CatalogError(
                f'bundle "{self.minimum}" not found in the catalog',
                hint=Hint("list the bundles of the catalog with {}", BundleOperation.LIST_INDEX_BUNDLES),
            )
        packages = {self.package, self._package_of_minimum(ordered)} - {""}
        selected = [channel for channel in ordered if {channel.package} >= packages]
        if self.minimum:
            selected = [_entries_above(channel, self.minimum, keys) for channel in selected]
        return [channel for channel in selected if channel.entries]

    def _package_of_minimum(self, channels: Iterable[ChannelBlob]) -> str:
        """Return the package of the first channel, by name, that contains the minimum; "" if none does."""
        if not self.minimum:
            return ""
        containing = (channel for channel in channels if any(entry.name == self.minimum for entry in channel.entries))
        first = min(containing, key=lambda channel: channel.name, default=None)
        return first.package if first else ""


def _entries_above(channel: ChannelBlob, minimum: str, keys: Mapping[str, VersionKey]) -> ChannelBlob:
    """Remove edges from below the minimum, and entries that have no other edges."""
    floor = keys[minimum]
    entries = []
    for entry in channel.entries:
        reduced = _remove_edges_below(entry, minimum, floor, keys)
        is_isolated_above = not _has_edges(entry) and keys.get(entry.name, MIN_VERSION_KEY) >= floor
        if _has_edges(reduced) or is_isolated_above or entry.name == minimum:
            entries.append(reduced)
    return replace(channel, entries=tuple(entries))


def _remove_edges_below(entry: EntryBlob, minimum: str, floor: VersionKey, keys: Mapping[str, VersionKey]) -> EntryBlob:
    if entry.name == minimum:
        return structs.replace(entry, replaces="", skips=(), skip_range="")
    return structs.replace(
        entry,
        replaces=entry.replaces if keys.get(entry.replaces, MIN_VERSION_KEY) >= floor else "",
        skips=tuple(name for name in entry.skips if keys.get(name, MIN_VERSION_KEY) >= floor),
        skip_range=entry.skip_range if _contains(entry.skip_range, floor) else "",
    )


def _has_edges(entry: EntryBlob) -> bool:
    return bool(entry.replaces or entry.skips or entry.skip_range)


def _contains(skip_range: str, key: VersionKey) -> bool:
    try:
        return bool(skip_range) and parse_range(skip_range).contains_key(key)
    except ValueError:
        return False
