"""Selection of the parts of a catalog to draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.bundle.hint_terms import BundleOperation
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.versions import MIN_VERSION_KEY, parse_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob


@dataclass(frozen=True, slots=True)
class GraphFilter:
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
        return replace(entry, replaces="", skips=(), skip_range="")
    return replace(
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
