"""Bundles entering the channels of a package with the edges that they name themselves (mode ``replaces``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.operations.values import Arrival


class Change(NamedTuple):
    """What a bundle that is added does to a channel: the channel with edges changed, and its own entry there.

    ``needed`` tells that entries of the channel name it now, so that it has to be there.
    """

    channel: ChannelBlob
    entry: EntryBlob
    needed: bool = False


def with_bundle(
    parts: Blobs, arrival: Arrival, change: Callable[[ChannelBlob], Change] | None = None, *, alone: bool = False
) -> Blobs:
    """The package with a bundle, and with its entry in each of its channels; channels that there aren't begin.

    A bundle of its name goes, and so do the entries of that one; a channel that has no other goes, too. What the
    bundle replaces or skips comes along into a channel that lacks it, with all that it leads to, as far as other
    channels of the package have it: unless it is put there ``alone``. Its edges are its own if no ``change`` tells
    others.
    """
    bundles = {bundle.name for bundle in parts.bundles}
    known = {} if alone else {name: entry for name, entry in known_entries(parts).items() if name in bundles}
    there = {channel.name for channel in parts.channels}
    begun = [ChannelBlob(name, arrival.package) for name in dict.fromkeys(arrival.channels) if name not in there]
    changes = [change(one) if change else Change(one, arrival.entry) for one in (*parts.channels, *begun)]
    channels = (
        _entered(one.channel, one.entry, known)
        if one.needed or one.channel.name in arrival.channels
        else _left(one.channel, arrival.name)
        for one in changes
    )
    return replace(parts, channels=tuple(filter(None, channels)), bundles=tuple(_bundles(parts, arrival)))


def _bundles(parts: Blobs, arrival: Arrival) -> Iterator[BundleBlob]:
    """The bundles with the one that arrives, in the place of one of its name."""
    found = False
    for bundle in parts.bundles:
        same = bundle.name == arrival.name
        found = found or same
        yield replace(arrival.blob, location=bundle.location) if same else bundle
    if not found:
        yield arrival.blob


def known_entries(parts: Blobs) -> dict[str, EntryBlob]:
    """An entry of each bundle of the package: one with edges if there is one, of the default channel or the first."""
    default = next((one.default_channel for one in parts.packages), "")
    known: dict[str, EntryBlob] = {}
    for channel in sorted(parts.channels, key=lambda one: (one.name != default, one.name)):
        for entry in channel.entries:
            if entry.name not in known or (_targets(entry) and not _targets(known[entry.name])):
                known[entry.name] = entry
    return known


def _targets(entry: EntryBlob) -> list[str]:
    return [name for name in (*entry.skips, entry.replaces) if name]


def _left(channel: ChannelBlob, name: str) -> ChannelBlob | None:
    """The channel without the entry of a bundle; None if nothing is left."""
    left = tuple(entry for entry in channel.entries if entry.name != name)
    if len(left) == len(channel.entries):
        return channel
    return replace(channel, entries=left) if left else None


def _entered(channel: ChannelBlob, entry: EntryBlob, known: Mapping[str, EntryBlob]) -> ChannelBlob:
    """The channel with the entry of a bundle, in the place of one of its name, and with what that leads to."""
    there = {one.name for one in channel.entries}
    led_to = _led_to(entry, there, known)
    if entry.name not in there:
        return replace(channel, entries=(*channel.entries, *led_to, entry))
    present = (entry if one.name == entry.name else one for one in channel.entries)
    return replace(channel, entries=(*present, *led_to))


def _led_to(entry: EntryBlob, there: Collection[str], known: Mapping[str, EntryBlob]) -> Iterable[EntryBlob]:
    """The entries that a channel lacks of what an entry leads to, the lowest first; what is skipped has no edges."""
    chain: dict[str, EntryBlob] = {}
    skipped = list(entry.skips)
    while entry.replaces in known and entry.replaces not in there and entry.replaces not in chain:
        chain[entry.replaces] = entry = known[entry.replaces]
        skipped += entry.skips
    lacking = [name for name in dict.fromkeys(skipped) if name in known and name not in {*there, *chain}]
    return [*(EntryBlob(name, skip_range=known[name].skip_range) for name in lacking), *reversed(chain.values())]
