"""Update graphs in the mode ``replaces``: bundles declare the edges, and can substitute others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.index.errors import CatalogError, GraphError, combine_errors
from opmkit.index.graph.values import ChannelGraph, Entry, PackageGraph, precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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


def substituted_edges(present: Mapping[str, Node], added: Iterable[Node]) -> dict[str, Node]:
    """Return, by name, the ``added`` bundles and those of ``present`` whose edges change.

    Bundles are added one after the other. Their ClusterServiceVersions do not change.

    Raises:
        GraphError: A version is invalid, two substitutes have the same version, or substitutions form a cycle.
    """
    nodes = dict(present)
    for node in added:
        nodes |= _add(nodes, node)
    return {name: node for name, node in nodes.items() if present.get(name) != node}


def _add(nodes: Mapping[str, Node], new: Node) -> dict[str, Node]:
    """Return the new bundle and the changed ones."""
    changed = {new.name: new}
    if new.substitutes_for:
        for name, node in nodes.items():
            if node.replaces == new.substitutes_for:
                changed[name] = replace(node, replaces=new.name)
        changed |= _insert_into_chain({**nodes, **changed}, new)
    current = {**nodes, **changed}
    substitutes = {node.substitutes_for: name for name, node in current.items() if node.substitutes_for}
    substituted = {name: node.substitutes_for for name, node in current.items() if node.substitutes_for}
    skips = [*new.skips, *_chain(substituted, new.name)]
    for name in _chain(substitutes, new.name):
        merged = dict.fromkeys([*current[name].skips, *skips, new.name])
        changed[name] = replace(current[name], skips=tuple(merged))
    with_substitutes = [name for skipped in skips for name in (skipped, *_chain(substitutes, skipped, end=new.name))]
    changed[new.name] = replace(
        changed[new.name],
        replaces=[new.replaces, *_chain(substitutes, new.replaces)][-1],
        skips=tuple(dict.fromkeys(with_substitutes)),
    )
    return changed


def _insert_into_chain(nodes: Mapping[str, Node], new: Node) -> dict[str, Node]:
    """Insert a bundle into a chain of substitutes; return it, and the bundle that substitutes it now, if any."""
    substitutes = {node.substitutes_for: name for name, node in nodes.items() if name != new.name}
    version, below = precedence(new.version), new.substitutes_for
    for above in _chain(substitutes, new.substitutes_for):
        if precedence(nodes[above].version) == version:
            raise GraphError(
                f"bundles {above} and {new.name} both substitute {below} and have the same version {new.version}",
                hint="give one of them a higher version or build metadata such as 1.2.3+1",
            )
        if precedence(nodes[above].version) > version:
            return {
                new.name: replace(new, substitutes_for=below),
                above: replace(nodes[above], substitutes_for=new.name),
            }
        below = above
    return {new.name: replace(new, substitutes_for=below)}


def _chain(links: Mapping[str, str], start: str, end: str = "") -> list[str]:
    """Return the names that follow ``start``, up to ``end`` exclusively."""
    chain: list[str] = []
    name = links.get(start)
    while name and name != end:
        if name == start or name in chain:
            raise GraphError(
                f"the bundles {' -> '.join([start, *chain, name])} substitute each other in a cycle",
                hint="remove the annotation olm.substitutesFor from one of them",
            )
        chain.append(name)
        name = links.get(name)
    return chain


_FLOOR = precedence("0.0.0")


class ChannelHeads(Struct, frozen=True):
    """The name of the default channel, and the head of each channel by name."""

    default_channel: str
    by_channel: Mapping[str, str]


def select_heads(package: str, members: Sequence[Member]) -> ChannelHeads:
    """Select the bundle with the highest version of each channel, and the default channel.

    ``members`` are the bundles of the index, then the added ones: only a bundle whose version is at least as high as
    those before it changes the default channel. An added bundle that is already skipped in the index is in both.

    Raises:
        GraphError: A version is invalid, two bundles have the highest version, or there is no default channel.
    """
    by_channel: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        _check_version(package, member)
        for channel in dict.fromkeys(member.channels):
            by_channel[channel].append(member)
    _check_single_highest(f"package {package}", [m for m in members if precedence(m.version) >= _FLOOR])
    for channel, candidates in sorted(by_channel.items()):
        _check_single_highest(f"channel {channel} of package {package}", candidates)
    heads = {channel: _highest(candidates).name for channel, candidates in sorted(by_channel.items())}
    return ChannelHeads(_default_channel(package, members, heads), heads)


def _default_channel(package: str, members: Iterable[Member], heads: Mapping[str, str]) -> str:
    named, highest = "", _FLOOR
    for member in members:
        version = precedence(member.version)
        if version >= highest:
            highest, named = version, member.default_channel or named
    if named in heads:
        return named
    if not named and len(heads) == 1:
        return next(iter(heads))
    channels = ", ".join(f"{channel} (head {head})" for channel, head in heads.items()) or "none"
    reason = f"the bundles name {named}, which no bundle is in" if named else "no bundle names one"
    raise GraphError(
        f"package {package} has no default channel: {reason}; its channels are: {channels}",
        hint="set one of the package's channels as the default channel in the annotations of its highest version"
        if heads
        else "set at least one channel in the annotations of the bundle",
    )


def _check_version(package: str, member: Member) -> None:
    try:
        precedence(member.version)
    except GraphError as error:
        raise GraphError(f"bundle {member.name} of package {package}: {error.message}", hint=error.hint) from error


def _highest(members: Sequence[Member]) -> Member:
    return max(members, key=lambda member: precedence(member.version))


def _check_single_highest(subject: str, members: Sequence[Member]) -> None:
    if not members:
        return
    top = precedence(_highest(members).version)
    highest = [member for member in members if precedence(member.version) == top]
    if len(highest) > 1:
        names = sorted({member.name for member in highest})
        raise GraphError(
            f"{subject} has more than one bundle with its highest version {highest[0].version!r}: "
            f"{' and '.join(names)}",
            hint="give the new bundle a higher version, or build metadata such as 1.2.3+1"
            if len(names) > 1
            else "give the new bundle another name: the index already skips this one",
        )
