"""What must hold of the bundles that are added, beside the graph itself (index semantics, section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.index.graph.values import ChannelGraph, Member, Node, PackageGraph


def claimed_names(bundles: Iterable[tuple[str, Node]]) -> dict[str, str]:
    """The package, by name, of every bundle that the added (package, bundle) pairs are, replace or skip.

    Raises:
        GraphError: two packages claim one name.
    """
    claims: dict[str, str] = {}
    for package, node in bundles:
        for name in filter(None, (*node.targets, node.name)):
            other = claims.setdefault(name, package)
            if other != package:
                raise GraphError(
                    f"bundle {name} must belong to one package, but bundles of {other} and of {package} name it",
                    advice="A bundle can only replace or skip bundles of its own package.",
                )
    return claims


def check_foreign_names(claims: Mapping[str, str], indexed: Iterable[tuple[str, str]]) -> None:
    """Check the claims against the (name, package) pairs that channels of the index have.

    Raises:
        GraphError: another package of the index has a name that is claimed.
    """
    for name, owner in indexed:
        claimant = claims.get(name, owner)
        if claimant != owner:
            raise GraphError(
                f"bundle {name} belongs to package {owner} in the index and can't be an edge of package {claimant}",
                advice="A bundle can only replace or skip bundles of its own package.",
            )


def pruned_members(graph: PackageGraph, added: Iterable[Member]) -> Iterator[GraphError]:
    """The errors of added bundles that no update leads to from the head of a channel that they say they are in."""
    channels = {channel.name: channel for channel in graph.channels}
    looped = [error for channel in graph.channels for error in _head_replaced(graph.name, channel)]
    yield from looped
    if looped:
        return
    reachable = {name: _reachable(channel) for name, channel in channels.items()}
    for member in added:
        for channel in member.channels:
            if member.name not in reachable.get(channel, ()):
                yield _pruned(graph.name, member, channel, channels.get(channel))


def _head_replaced(package: str, channel: ChannelGraph) -> Iterator[GraphError]:
    """A head that something below it updates from is no head: the channel has none."""
    for above, below in sorted(channel.edges):
        if below == channel.head:
            yield GraphError(
                f"channel {channel.name} of package {package} has no head: its highest version {below} is itself "
                f"replaced or skipped by {above}",
                advice=f"Remove {below} from the replaces and skips of {above}.",
            )


def _reachable(channel: ChannelGraph) -> frozenset[str]:
    """Every name that an update path leads to; all edges start at a bundle of the chain."""
    return frozenset({node.name for node in channel.chain} | {below for _, below in channel.edges})


def _pruned(package: str, member: Member, channel: str, graph: ChannelGraph | None) -> GraphError:
    if graph is None:
        state = "which the package does not have: its head is deprecated"
    else:
        chain = " -> ".join(node.name for node in graph.chain)
        state = f"whose head is {graph.head} (highest version; it updates from: {chain})"
    return GraphError(
        f"add prunes bundle {member.name} from package {package}, channel {channel}, {state}",
        advice=f"Let a bundle of that channel replace or skip {member.name}, or give {member.name} a higher version "
        "than the head and let it replace or skip it.",
    )
