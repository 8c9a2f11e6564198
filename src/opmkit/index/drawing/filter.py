"""The part of a catalog that is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.versions import MIN_VERSION_KEY, parse_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob


@dataclass(frozen=True, slots=True)
class GraphFilter:
    """A package, "" for all; and a bundle, of whose package nothing is drawn that leads to lower versions."""

    package: str = ""
    minimum: str = ""

    def channels(self, channels: Iterable[ChannelBlob], keys: Mapping[str, VersionKey]) -> list[ChannelBlob]:
        """The channels that are drawn, by package and name, with what is drawn of them.

        Raises:
            CatalogError: the catalog has no bundle of the name of the minimum.
        """
        ordered = sorted(channels, key=lambda channel: (channel.package, channel.name))
        if not (self.package or self.minimum):
            return ordered
        if self.minimum and self.minimum not in keys:
            raise CatalogError(
                f'the catalog has no bundle "{self.minimum}" to begin at',
                hint=Hint("list the bundles of the catalog with {}", Operation.LIST_INDEX_BUNDLES),
            )
        packages = {self.package, self._package_of_minimum(ordered)} - {""}
        chosen = [channel for channel in ordered if {channel.package} >= packages]
        if self.minimum:
            chosen = [_above(channel, self.minimum, keys) for channel in chosen]
        return [channel for channel in chosen if channel.entries]

    def _package_of_minimum(self, channels: Iterable[ChannelBlob]) -> str:
        """The package of the first channel, by name, that has the minimum; "" where none has it."""
        holders = (one for one in channels if any(entry.name == self.minimum for entry in one.entries))
        first = min(holders, key=lambda channel: channel.name, default=None) if self.minimum else None
        return first.package if first else ""


def _above(channel: ChannelBlob, minimum: str, keys: Mapping[str, VersionKey]) -> ChannelBlob:
    """The channel without edges from below the minimum, and without entries that had none but such."""
    floor = keys[minimum]
    kept = []
    for entry in channel.entries:
        cut = _cut(entry, minimum, floor, keys)
        is_above = not _has_edges(entry) and keys.get(entry.name, MIN_VERSION_KEY) >= floor
        if _has_edges(cut) or is_above or entry.name == minimum:
            kept.append(cut)
    return replace(channel, entries=tuple(kept))


def _cut(entry: EntryBlob, minimum: str, floor: VersionKey, keys: Mapping[str, VersionKey]) -> EntryBlob:
    """The entry with those of its edges that begin at the floor or above."""
    if entry.name == minimum:
        return replace(entry, replaces="", skips=(), skip_range="")
    return replace(
        entry,
        replaces=entry.replaces if keys.get(entry.replaces, MIN_VERSION_KEY) >= floor else "",
        skips=tuple(name for name in entry.skips if keys.get(name, MIN_VERSION_KEY) >= floor),
        skip_range=entry.skip_range if _holds(entry.skip_range, floor) else "",
    )


def _has_edges(entry: EntryBlob) -> bool:
    return bool(entry.replaces or entry.skips or entry.skip_range)


def _holds(text: str, floor: VersionKey) -> bool:
    try:
        return bool(text) and parse_range(text).contains_key(floor)
    except ValueError:
        return False
