"""Bundles entering the channels of a package by their versions alone (modes ``semver`` and ``semver-skippatch``)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.graph import Member, Placed, semver_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.index.graph import ChannelGraph
    from opmkit.index.operations.values import Arrival


def with_bundles_by_version(
    parts: Blobs, arrivals: Sequence[Arrival], *, skip_patch: bool = False
) -> tuple[Blobs, str]:
    """The package with bundles and their entries, and the name of its default channel.

    Channels that no bundle arrives in stay as they are. Entries keep their skip ranges.

    Raises:
        GraphError: see :func:`opmkit.index.graph.semver_graph`.
    """
    (package,) = {arrival.package for arrival in arrivals}
    default = next((one.default_channel for one in parts.packages), "")
    members = [Member(one.name, one.version, one.channels, one.default_channel) for one in arrivals]
    graph = semver_graph(package, default, _placed(parts, arrivals), members, skip_patch=skip_patch)
    graphs = {channel.name: channel for channel in graph.channels}
    there = {channel.name for channel in parts.channels}
    begun = [ChannelBlob(name, package) for name in graphs if name not in there]
    channels = (
        _laid_out(channel, graphs[channel.name], arrivals) if channel.name in graphs else channel
        for channel in (*parts.channels, *begun)
    )
    bundles = (*parts.bundles, *(arrival.blob for arrival in arrivals))
    return replace(parts, channels=tuple(channels), bundles=bundles), graph.default_channel


def _placed(parts: Blobs, arrivals: Sequence[Arrival]) -> dict[str, list[Placed]]:
    """The bundles in the channels that others arrive in, and the names of the other channels."""
    versions = {bundle.name: bundle_version(bundle) for bundle in parts.bundles}
    concerned = {channel for arrival in arrivals for channel in arrival.channels}
    return {
        channel.name: [
            Placed(entry.name, versions[entry.name], _targets(entry))
            for entry in channel.entries
            if channel.name in concerned and entry.name in versions
        ]
        for channel in parts.channels
    }


def _targets(entry: EntryBlob) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (*entry.skips, entry.replaces))))


def _laid_out(channel: ChannelBlob, graph: ChannelGraph, arrivals: Sequence[Arrival]) -> ChannelBlob:
    """The channel with the edges of a graph, and with the entries of the bundles that arrive in it."""
    ranges = [EntryBlob(one.name, skip_range=one.skip_range) for one in arrivals if channel.name in one.channels]
    following = dict(zip([node.name for node in graph.chain], [node.name for node in graph.chain[1:]], strict=False))
    entries = tuple(_with_edges([*channel.entries, *ranges], following, _leaving(graph)))
    return channel if entries == channel.entries else replace(channel, entries=entries)


def _leaving(graph: ChannelGraph) -> Mapping[str, list[str]]:
    """The names that each bundle of the graph updates from, in order."""
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for entry in graph.entries:
        if entry.replaces is not None:
            leaving[entry.name].append(graph.entries[entry.replaces].name)
    return leaving


def _with_edges(
    entries: Sequence[EntryBlob], following: Mapping[str, str], leaving: Mapping[str, Sequence[str]]
) -> Iterator[EntryBlob]:
    """The entries with new edges; what one replaces that is not in the channel stays replaced, if nothing else is."""
    for entry in entries:
        below = leaving.get(entry.name, ())
        replaced = following.get(entry.name) or (entry.replaces if entry.replaces in below else "")
        skips = tuple(name for name in below if name != replaced)
        yield replace(entry, replaces=replaced, skips=skips)
