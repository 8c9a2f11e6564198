"""Channel entries of added bundles: the edges that they declare, or those of semantic versions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.graph import ChannelNode, Member, semver_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.graph import ChannelGraph
    from opmkit.index.operations.add.fbc_checks import NewBundle


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


def _targets(entry: EntryBlob) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (*entry.skips, entry.replaces))))


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


def insert_bundles_by_version(
    package: Blobs, bundles: Sequence[NewBundle], *, skip_patch: bool = False
) -> tuple[Blobs, str]:
    """Return the package with bundles of it and their entries, and the name of its default channel.

    Channels without a new bundle are unchanged. Entries retain their skip ranges.

    Raises:
        GraphError: See :func:`opmkit.index.graph.semver_graph`.
    """
    (name,) = {bundle.package for bundle in bundles}
    default = next((blob.default_channel for blob in package.packages), "")
    members = [Member(bundle.name, bundle.version, bundle.channels, bundle.default_channel) for bundle in bundles]
    graph = semver_graph(name, default, _placed(package, bundles), members, skip_patch=skip_patch)
    graphs = {channel.name: channel for channel in graph.channels}
    existing = {channel.name for channel in package.channels}
    created = [ChannelBlob(channel, name) for channel in graphs if channel not in existing]
    channels = (
        _apply_graph(channel, graphs[channel.name], bundles) if channel.name in graphs else channel
        for channel in (*package.channels, *created)
    )
    blobs = (*package.bundles, *(bundle.blob for bundle in bundles))
    return replace(package, channels=tuple(channels), bundles=blobs), graph.default_channel


def _placed(package: Blobs, bundles: Sequence[NewBundle]) -> dict[str, list[ChannelNode]]:
    """Return the present bundles of the channels that get new ones, and an empty list for each other channel."""
    versions = {blob.name: bundle_version(blob) for blob in package.bundles}
    changed = {channel for bundle in bundles for channel in bundle.channels}
    return {
        channel.name: [
            ChannelNode(entry.name, versions[entry.name], _targets(entry))
            for entry in channel.entries
            if channel.name in changed and entry.name in versions
        ]
        for channel in package.channels
    }


def _apply_graph(channel: ChannelBlob, graph: ChannelGraph, bundles: Sequence[NewBundle]) -> ChannelBlob:
    """Return the channel with the edges of a graph and the entries of its new bundles."""
    new = [
        EntryBlob(bundle.name, skip_range=bundle.skip_range) for bundle in bundles if channel.name in bundle.channels
    ]
    replaced = {above.name: below.name for above, below in pairwise(graph.chain)}
    entries = tuple(_with_edges([*channel.entries, *new], replaced, _targets_by_name(graph)))
    return channel if entries == channel.entries else replace(channel, entries=entries)


def _targets_by_name(graph: ChannelGraph) -> Mapping[str, list[str]]:
    """Return the names that each bundle of the graph replaces or skips, in order."""
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for entry in graph.entries:
        if entry.replaces is not None:
            targets[entry.name].append(graph.entries[entry.replaces].name)
    return targets


def _with_edges(
    entries: Sequence[EntryBlob], replaced: Mapping[str, str], targets: Mapping[str, Sequence[str]]
) -> Iterator[EntryBlob]:
    """Yield the entries with new edges; the last of the chain retains a replaces that is not in the channel."""
    for entry in entries:
        below = targets.get(entry.name, ())
        replaces = replaced.get(entry.name) or (entry.replaces if entry.replaces in below else "")
        skips = tuple(name for name in below if name != replaces)
        yield structs.replace(entry, replaces=replaces, skips=skips)
