"""Channel entries of added bundles in the mode ``replaces``: bundles declare their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.operations.add.new_bundle import NewBundle


class ChannelEdit(NamedTuple):
    """A channel with changed edges, and the entry of a new bundle there.

    ``required`` is set if other entries of the channel refer to the new bundle, which then must be in it.
    """

    channel: ChannelBlob
    entry: EntryBlob
    required: bool = False


def insert_bundle(
    package: Blobs, bundle: NewBundle, edit: Callable[[ChannelBlob], ChannelEdit] | None = None, *, alone: bool = False
) -> Blobs:
    """Return the package with a bundle and its entry in each of its channels; create missing channels.

    Replace a bundle of the same name, and remove its other entries, with channels that become empty. Unless ``alone``,
    copy to a channel what the bundle replaces or skips, transitively, from the other channels of the package. ``edit``
    changes the edges of each channel; by default the bundle keeps its own.
    """
    bundles = {blob.name for blob in package.bundles}
    known = {} if alone else {name: entry for name, entry in known_entries(package).items() if name in bundles}
    existing = {channel.name for channel in package.channels}
    created = [ChannelBlob(name, bundle.package) for name in dict.fromkeys(bundle.channels) if name not in existing]
    edits = [edit(channel) if edit else ChannelEdit(channel, bundle.entry) for channel in (*package.channels, *created)]
    channels = (
        _insert_entry(channel, entry, known)
        if required or channel.name in bundle.channels
        else _remove_entry(channel, bundle.name)
        for channel, entry, required in edits
    )
    return replace(package, channels=tuple(filter(None, channels)), bundles=tuple(_bundles(package, bundle)))


def _bundles(package: Blobs, bundle: NewBundle) -> Iterator[BundleBlob]:
    """Yield the bundles with the new one, in the place of one of the same name."""
    found = False
    for blob in package.bundles:
        same_name = blob.name == bundle.name
        found = found or same_name
        yield replace(bundle.blob, location=blob.location) if same_name else blob
    if not found:
        yield bundle.blob


def known_entries(package: Blobs) -> dict[str, EntryBlob]:
    """Return an entry of each bundle: preferably one with edges, from the default channel or the first by name."""
    default = next((blob.default_channel for blob in package.packages), "")
    known: dict[str, EntryBlob] = {}
    for channel in sorted(package.channels, key=lambda channel: (channel.name != default, channel.name)):
        for entry in channel.entries:
            if entry.name not in known or (_targets(entry) and not _targets(known[entry.name])):
                known[entry.name] = entry
    return known


def _targets(entry: EntryBlob) -> list[str]:
    return [name for name in (*entry.skips, entry.replaces) if name]


def _remove_entry(channel: ChannelBlob, name: str) -> ChannelBlob | None:
    """Return the channel without the entry of a bundle, None if it becomes empty."""
    entries = tuple(entry for entry in channel.entries if entry.name != name)
    if len(entries) == len(channel.entries):
        return channel
    return replace(channel, entries=entries) if entries else None


def _insert_entry(channel: ChannelBlob, entry: EntryBlob, known: Mapping[str, EntryBlob]) -> ChannelBlob:
    """Return the channel with an entry, in the place of one of the same name, and with the entries below it."""
    names = {other.name for other in channel.entries}
    below = _missing_below(entry, names, known)
    if entry.name not in names:
        return replace(channel, entries=(*channel.entries, *below, entry))
    entries = (entry if other.name == entry.name else other for other in channel.entries)
    return replace(channel, entries=(*entries, *below))


def _missing_below(entry: EntryBlob, present: Collection[str], known: Mapping[str, EntryBlob]) -> Iterable[EntryBlob]:
    """Return the entries that a channel lacks of those below an entry, the lowest first; skipped ones have no edges."""
    chain: dict[str, EntryBlob] = {}
    skipped = list(entry.skips)
    while entry.replaces in known and entry.replaces not in present and entry.replaces not in chain:
        chain[entry.replaces] = entry = known[entry.replaces]
        skipped += entry.skips
    missing = [name for name in dict.fromkeys(skipped) if name in known and name not in {*present, *chain}]
    return [*(EntryBlob(name, skip_range=known[name].skip_range) for name in missing), *reversed(chain.values())]
