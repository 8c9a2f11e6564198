"""The update graph of a package in replaces mode: each channel is walked down from its highest version.

Index semantics, section 3: the edges are those that the bundles themselves name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, GraphError, combined
from opmkit.index.graph.heads import choose_heads
from opmkit.index.graph.values import ChannelGraph, Entry, PackageGraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from opmkit.index.graph.values import Member, Node


def replaces_graph(
    package: str, members: Sequence[Member], nodes: Mapping[str, Node], deprecated: AbstractSet[str] = frozenset()
) -> PackageGraph:
    """The graph of ``package`` for its ``members``, see `choose_heads`.

    ``nodes`` holds, by name, at least every bundle of the index that can be reached from a member by replaces.
    A channel headed by a deprecated bundle is left out; a walk ends with the first deprecated bundle.

    Raises:
        GraphError: see `choose_heads`; a replaced bundle that does not exist, a cycle, a default channel left out.
    """
    outline = choose_heads(package, members)
    if outline.by_channel[outline.default_channel] in deprecated:
        raise GraphError(
            f"the default channel {outline.default_channel} of package {package} is headed by the deprecated bundle "
            f"{outline.by_channel[outline.default_channel]}",
            advice="Add a newer bundle to that channel, or one that makes another channel the default.",
        )
    channels: list[ChannelGraph] = []
    errors: list[CatalogError] = []
    for channel, head in outline.by_channel.items():
        if head not in deprecated:
            try:
                channels.append(_walk(package, channel, nodes[head], nodes, deprecated))
            except GraphError as error:
                errors.append(error)
    if errors:
        raise combined(errors)
    return PackageGraph(package, outline.default_channel, tuple(channels))


def _walk(
    package: str, channel: str, head: Node, nodes: Mapping[str, Node], deprecated: AbstractSet[str]
) -> ChannelGraph:
    """Lay out the entries of a channel.

    Each skip of a node takes a depth for itself: an entry of the skipped name, and one of the node that replaces it.
    Then comes the replaced bundle, which the node's first entry replaces, and the walk goes on there.
    """
    entries = [Entry(head.name, 0)]
    chain = {head.name: head}
    node, position, depth = head, 0, 1
    while node.name not in deprecated:
        for skipped in node.skips:
            entries += [Entry(skipped, depth), Entry(node.name, depth, replaces=len(entries))]
            depth += 1
        if not node.replaces:
            break
        entries[position] = Entry(node.name, entries[position].depth, replaces=len(entries))
        node, position = _next_node(package, channel, chain, nodes), len(entries)
        entries.append(Entry(node.name, depth))
        chain[node.name] = node
        depth += 1
    return ChannelGraph(channel, head.name, tuple(entries), tuple(chain.values()))


def _next_node(package: str, channel: str, chain: dict[str, Node], nodes: Mapping[str, Node]) -> Node:
    """The bundle that the last one of the chain, by name, replaces."""
    node = chain[next(reversed(chain))]
    if node.replaces in nodes and node.replaces not in chain:
        return nodes[node.replaces]
    where, names = f"channel {channel} of package {package}", list(chain)
    if node.replaces in chain:
        loop = " -> ".join([*names[names.index(node.replaces) :], node.replaces])
        raise GraphError(
            f"{where} has a cycle: {loop}",
            advice=f"Change the replaces of one of them: {node.name} replacing {node.replaces} closes the cycle.",
        )
    raise GraphError(
        f"{where}: {node.name} replaces {node.replaces}, which is neither in the index nor among the bundles added "
        f"(the channel from its head: {' -> '.join([*names, node.replaces])})",
        advice=f"Add {node.replaces} before or in the same command, or give {node.name} another replaces.",
    )
