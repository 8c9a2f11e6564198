"""Update graphs in the mode ``replaces``: bundles declare the edges, and the highest version heads a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, GraphError, combine_errors
from opmkit.index.graph.heads import select_heads
from opmkit.index.graph.values import ChannelGraph, Entry, PackageGraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from opmkit.index.graph.values import Member, Node


def replaces_graph(
    package: str, members: Sequence[Member], nodes: Mapping[str, Node], deprecated: AbstractSet[str] = frozenset()
) -> PackageGraph:
    """Build the graph of ``package`` from its ``members``, which are described at `select_heads`.

    ``nodes`` contains at least all bundles of the index, by name, that the replaces of a member lead to. Channels with
    a deprecated head are omitted, and a chain ends at the first deprecated bundle.

    Raises:
        GraphError: See `select_heads`; or a replaced bundle does not exist, a channel has a cycle, or the default
            channel is omitted.
    """
    heads = select_heads(package, members)
    default_head = heads.by_channel[heads.default_channel]
    if default_head in deprecated:
        raise GraphError(
            f"the default channel {heads.default_channel} of package {package} is headed by the deprecated bundle "
            f"{default_head}",
            hint="add a newer bundle to that channel, or one that makes another channel the default",
        )
    channels: list[ChannelGraph] = []
    errors: list[CatalogError] = []
    for channel, head in heads.by_channel.items():
        if head not in deprecated:
            try:
                channels.append(_walk(package, channel, nodes[head], nodes, deprecated))
            except GraphError as error:
                errors.append(error)
    if errors:
        raise combine_errors(errors)
    return PackageGraph(package, heads.default_channel, tuple(channels))


def _walk(
    package: str, channel: str, head: Node, nodes: Mapping[str, Node], deprecated: AbstractSet[str]
) -> ChannelGraph:
    """Build the entries of a channel by following replaces from its head.

    For each node there are first, per skipped bundle, two entries of the same depth: one of the skipped bundle, and one
    of the node that replaces it. An entry of the replaced bundle follows, which the node's first entry replaces.
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
    """Return the bundle that the last one of the chain replaces."""
    node = chain[next(reversed(chain))]
    if node.replaces in nodes and node.replaces not in chain:
        return nodes[node.replaces]
    subject, names = f"channel {channel} of package {package}", list(chain)
    if node.replaces in chain:
        cycle = " -> ".join([*names[names.index(node.replaces) :], node.replaces])
        raise GraphError(
            f"{subject} has a cycle: {cycle}",
            hint=f"change the replaces of one of them: {node.name} replacing {node.replaces} closes the cycle",
        )
    raise GraphError(
        f"{subject}: {node.name} replaces {node.replaces}, which is neither in the index nor among the bundles added "
        f"(the channel from its head: {' -> '.join([*names, node.replaces])})",
        hint=f"add {node.replaces} before or in the same command, or give {node.name} another replaces",
    )
