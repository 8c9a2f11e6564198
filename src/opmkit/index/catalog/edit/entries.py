"""Bundles entering the channels of a package with the edges that they name themselves (mode ``replaces``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.catalog.blobs import Blobs, ChannelBlob, EntryBlob

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opmkit.index.catalog.blobs import BundleBlob
    from opmkit.index.catalog.edit.values import Arrival


def with_bundle(parts: Blobs, arrival: Arrival, *, alone: bool = False) -> Blobs:
    """The package with a bundle, and with its entry in each of its channels; channels that there aren't begin.

    A bundle of its name goes, and so do the entries of that one; a channel that has no other goes, too. What the
    bundle replaces or skips comes along into a channel that lacks it, with all that it leads to, as far as other
    channels of the package have it: unless it is put there ``alone``.
    """
    known = {} if alone else _known_entries(parts)
    bundles = {bundle.name for bundle in parts.bundles}
    there = {channel.name for channel in parts.channels}
    begun = [ChannelBlob(name, arrival.package) for name in dict.fromkeys(arrival.channels) if name not in there]
    channels = (_entered(channel, arrival, known, bundles) for channel in (*parts.channels, *begun))
    return replace(parts, channels=tuple(filter(None, channels)), bundles=tuple(_bundles(parts, arrival)))


def _bundles(parts: Blobs, arrival: Arrival) -> Iterator[BundleBlob]:
    """The bundles with the one that arrives, in the place of one of its name."""
    found = False
    for bundle in parts.bundles:
        same = bundle.name == arrival.name
        found = found or same
        yield replace(arrival.blob, place=bundle.place) if same else bundle
    if not found:
        yield arrival.blob


def _known_entries(parts: Blobs) -> dict[str, EntryBlob]:
    """An entry of each bundle of the package: one with edges if there is one, of the default channel or the first."""
    default = next((one.default_channel for one in parts.packages), "")
    known: dict[str, EntryBlob] = {}
    for channel in sorted(parts.channels, key=lambda one: (one.name != default, one.name)):
        for entry in channel.entries:
            if entry.name not in known or not _has_edges(known[entry.name]):
                known[entry.name] = entry
    return known


def _has_edges(entry: EntryBlob) -> bool:
    return bool(entry.replaces or entry.skips)


def _entered(
    channel: ChannelBlob, arrival: Arrival, known: Mapping[str, EntryBlob], bundles: Collection[str]
) -> ChannelBlob | None:
    """The channel with the entry of a bundle, if it is to be there, or without one; None if nothing is left."""
    there = {entry.name for entry in channel.entries}
    if arrival.name not in there and channel.name not in arrival.channels:
        return channel
    if channel.name not in arrival.channels:
        left = tuple(entry for entry in channel.entries if entry.name != arrival.name)
        return replace(channel, entries=left) if left else None
    led_to = _led_to(arrival.entry, there, known, bundles)
    if arrival.name in there:
        own = (arrival.entry if entry.name == arrival.name else entry for entry in channel.entries)
        return replace(channel, entries=(*own, *led_to))
    return replace(channel, entries=(*channel.entries, *led_to, arrival.entry))


def _led_to(
    entry: EntryBlob, there: Collection[str], known: Mapping[str, EntryBlob], bundles: Collection[str]
) -> Iterable[EntryBlob]:
    """The entries that a channel lacks of what an entry leads to, the lowest first; what is skipped has no edges."""
    chain: dict[str, EntryBlob] = {}
    skipped = list(entry.skips)
    while entry.replaces in known and entry.replaces not in there and entry.replaces not in chain:
        chain[entry.replaces] = entry = known[entry.replaces]
        skipped += entry.skips
    lacking = [name for name in dict.fromkeys(skipped) if name in known and name in bundles]
    leaves = [EntryBlob(name, skip_range=known[name].skip_range) for name in lacking if name not in {*there, *chain}]
    return [*leaves, *reversed(chain.values())]
