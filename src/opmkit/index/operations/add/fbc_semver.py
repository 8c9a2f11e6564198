"""Channel entries of added bundles in the modes ``semver`` and ``semver-skippatch``: versions determine the edges."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.graph import ChannelNode, Member, semver_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.index.graph import ChannelGraph
    from opmkit.index.operations.add.new_bundle import NewBundle


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


def _targets(entry: EntryBlob) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (*entry.skips, entry.replaces))))


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
        yield replace(entry, replaces=replaces, skips=skips)
