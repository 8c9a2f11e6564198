"""Checks of added bundles against the other packages of an index and against their new update graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.index.graph.values import ChannelGraph, Member, Node, PackageGraph

_OWN_PACKAGE_HINT = "replace or skip only bundles of the same package"


def claim_names(bundles: Iterable[tuple[str, Node]]) -> dict[str, str]:
    """Map the names of added (package, bundle) pairs, and the names that they replace or skip, to their package.

    Raises:
        GraphError: Bundles of two packages have or refer to the same name.
    """
    claims: dict[str, str] = {}
    for package, node in bundles:
        for name in filter(None, (*node.targets, node.name)):
            other = claims.setdefault(name, package)
            if other != package:
                raise GraphError(
                    f"bundle {name} must belong to one package, but bundles of {other} and of {package} name it",
                    hint=_OWN_PACKAGE_HINT,
                )
    return claims


def check_name_owners(claims: Mapping[str, str], indexed: Iterable[tuple[str, str]]) -> None:
    """Check claimed names against the (name, package) pairs in channels of the index.

    Raises:
        GraphError: A claimed name belongs to another package of the index.
    """
    for name, owner in indexed:
        claimant = claims.get(name, owner)
        if claimant != owner:
            raise GraphError(
                f"bundle {name} belongs to package {owner} in the index and cannot be an edge of package {claimant}",
                hint=_OWN_PACKAGE_HINT,
            )


def pruned_member_errors(graph: PackageGraph, added: Iterable[Member]) -> Iterator[GraphError]:
    """Yield errors for added bundles that cannot be reached from the heads of their channels."""
    channels = {channel.name: channel for channel in graph.channels}
    head_errors = [error for channel in graph.channels for error in _updated_heads(graph.name, channel)]
    yield from head_errors
    if head_errors:
        return
    reachable = {name: _reachable(channel) for name, channel in channels.items()}
    for member in added:
        for channel in member.channels:
            if member.name not in reachable.get(channel, ()):
                yield _pruned(graph.name, member, channel, channels.get(channel))


def _updated_heads(package: str, channel: ChannelGraph) -> Iterator[GraphError]:
    """Yield errors if another bundle of the channel replaces or skips its head."""
    for above, below in sorted(channel.edges):
        if below == channel.head:
            yield GraphError(
                f"channel {channel.name} of package {package} has no head: its highest version {below} is itself "
                f"replaced or skipped by {above}",
                hint=f"remove {below} from the replaces and skips of {above}",
            )


def _reachable(channel: ChannelGraph) -> frozenset[str]:
    """Return the names that can be reached from the head; all edges start at a bundle of the chain."""
    return frozenset({node.name for node in channel.chain} | {below for _, below in channel.edges})


def _pruned(package: str, member: Member, channel: str, graph: ChannelGraph | None) -> GraphError:
    if graph is None:
        state = "which the package does not have: its head is deprecated"
    else:
        chain = " -> ".join(node.name for node in graph.chain)
        state = f"whose head is {graph.head} (highest version; it updates from: {chain})"
    return GraphError(
        f"add prunes bundle {member.name} from package {package}, channel {channel}, {state}",
        hint=f"let a bundle of that channel replace or skip {member.name}, or give {member.name} a higher version "
        "than the head and let it replace or skip the head",
    )
