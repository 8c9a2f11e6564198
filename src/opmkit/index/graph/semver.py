"""Update graphs in the modes ``semver`` and ``semver-skippatch``: versions determine the edges.

The result does not depend on the order in which bundles were added, nor on their distribution over commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, GraphError, combine_errors
from opmkit.index.graph.values import ChannelGraph, ChannelNode, Entry, Node, PackageGraph, precedence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from opmkit.index.graph.values import Member, Precedence


def semver_graph(
    package: str,
    default_channel: str,
    channels: Mapping[str, Sequence[ChannelNode]],
    added: Sequence[Member],
    *,
    skip_patch: bool = False,
) -> PackageGraph:
    """Build the graph of ``package`` with the ``added`` bundles.

    An added bundle replaces the one with the next lower version. The one with the next higher version replaces the
    added bundle and loses its other edges.

    With ``skip_patch``, every channel with an added bundle is rebuilt: the highest bundle of each MAJOR.MINOR skips the
    others, prereleases included, and replaces the highest of the preceding MAJOR.MINOR. The other channels do not
    change and are omitted from the result, and so are channels without bundles.

    Args:
        package: Name of the package.
        default_channel: Default channel of the package in the index, or "" for a new package.
        channels: Channels of the package in the index.
        added: New bundles; the last one that names a default channel sets it.
        skip_patch: Use the mode ``semver-skippatch``.

    Raises:
        GraphError: A version is invalid or not unique in its channel, a channel is not a single chain of updates, or
            the package has no default channel.
    """
    added_to: dict[str, list[Member]] = {name: [] for name in channels}
    for member in added:
        for channel in dict.fromkeys(member.channels):
            added_to.setdefault(channel, []).append(member)
    default = _default_channel(package, default_channel, added_to, added)
    graphs: list[ChannelGraph] = []
    errors: list[CatalogError] = []
    for channel, members in sorted(added_to.items()):
        present = channels.get(channel, ())
        if not members and (skip_patch or not present):
            continue
        subject = f"channel {channel} of package {package}"
        try:
            nodes = _insert(subject, present, members)
            chain = _skip_patches(nodes) if skip_patch else _chain(subject, nodes, {member.name for member in members})
            graphs.append(_channel(channel, chain))
        except GraphError as error:
            errors.append(error)
    if errors:
        raise combine_errors(errors)
    return PackageGraph(package, default, tuple(graphs))


def _default_channel(package: str, current: str, channels: Collection[str], added: Iterable[Member]) -> str:
    """Return the last default channel that a bundle names, else the current one, else a channel of the first bundle."""
    default = current
    for member in added:
        named = member.default_channel
        if named and named not in channels:
            raise GraphError(
                f"bundle {member.name} names the default channel {named}, which package {package} does not have; its "
                f"channels are: {', '.join(sorted(channels)) or 'none'}",
                hint=f"set one of these in its annotations, or add a bundle in {named} in the same command",
            )
        default = named or default or min(member.channels, default="")
    if not default:
        raise GraphError(
            f"package {package} has no default channel: its bundles name none and are in no channel",
            hint="set at least one channel in the annotations of the bundle",
        )
    return default


def _insert(subject: str, present: Sequence[ChannelNode], added: Sequence[Member]) -> list[ChannelNode]:
    """Return all bundles of a channel with their new edges, in ascending order of version."""
    new_names = {member.name for member in added}
    bundles = [*present, *(ChannelNode(member.name, member.version, ()) for member in added)]
    order = {bundle.name: _precedence(subject, bundle) for bundle in bundles}
    bundles.sort(key=lambda bundle: order[bundle.name])
    nodes: list[ChannelNode] = []
    for lower, bundle in zip([None, *bundles], bundles, strict=False):
        if lower is None or new_names.isdisjoint((lower.name, bundle.name)):
            nodes.append(bundle)
            continue
        if order[lower.name][:-1] == order[bundle.name][:-1]:
            raise GraphError(
                f"{subject} has the version {lower.version} ({lower.name}) already, and {bundle.name} of version "
                f"{bundle.version} is the same to it: build metadata does not count",
                hint="give the new bundle a higher version, or add it in the mode replaces",
            )
        nodes.append(ChannelNode(bundle.name, bundle.version, (lower.name,)))
    return nodes


def _precedence(subject: str, bundle: ChannelNode) -> Precedence:
    try:
        if bundle.version:
            return precedence(bundle.version)
    except GraphError as error:
        raise GraphError(f"bundle {bundle.name} of {subject}: {error.message}", hint=error.hint) from error
    raise GraphError(
        f"bundle {bundle.name} of {subject} has no version",
        hint="set the version of its ClusterServiceVersion, or add the bundle in the mode replaces",
    )


def _chain(subject: str, nodes: Sequence[ChannelNode], added: Collection[str]) -> list[ChannelNode]:
    """Return the bundles in order of updates, from the head down; each must occur exactly once."""
    by_name = {node.name: node for node in nodes}
    targets = {target for node in nodes for target in node.targets}
    heads = [node for node in nodes if node.name not in targets]
    if nodes[-1].name in added:
        heads = [nodes[-1]]
    if len(heads) != 1:
        raise _not_a_chain(subject, f"has {_join(heads)} as heads that nothing updates from")
    chain = heads[:1]
    while below := [target for target in chain[-1].targets if target in by_name]:
        if len(below) > 1:
            raise _not_a_chain(subject, f"lets {chain[-1].name} update from {' as well as from '.join(below)}")
        chain.append(by_name[below[0]])
        if len(chain) > len(nodes):
            raise _not_a_chain(subject, f"has a cycle through {chain[-1].name}")
    if missing := set(nodes).difference(chain):
        names = " -> ".join(node.name for node in chain)
        raise _not_a_chain(subject, f"leads from its head to {names} and leaves out {_join(missing)}")
    return chain


def _not_a_chain(subject: str, problem: str) -> GraphError:
    return GraphError(
        f"{subject} is not a single chain of updates, which the mode semver requires: it {problem}",
        hint="add to this package in the mode that its bundles were added in",
    )


def _join(nodes: Iterable[ChannelNode]) -> str:
    return " and ".join(sorted(node.name for node in nodes)) or "no bundles"


def _skip_patches(nodes: Sequence[ChannelNode]) -> list[ChannelNode]:
    """Return the highest bundle of each MAJOR.MINOR from the head down; the others become targets only."""
    groups: dict[tuple[int, int], list[ChannelNode]] = {}
    for node in reversed(nodes):
        groups.setdefault(precedence(node.version)[:2], []).append(node)
    names = {node.name for node in nodes}
    next_names = [group[0].name for group in list(groups.values())[1:]]
    chain: list[ChannelNode] = []
    for (highest, *patches), below in zip(groups.values(), [*next_names, None], strict=True):
        absent = [target for target in highest.targets if target not in names]
        targets = [*(patch.name for patch in patches), *absent, *([below] if below else [])]
        chain.append(ChannelNode(highest.name, highest.version, tuple(targets)))
    return chain


def _channel(name: str, chain: Sequence[ChannelNode]) -> ChannelGraph:
    """Build the entries: one for each bundle of the chain, at increasing depths, and a pair for each skip below it."""
    names = {node.name for node in chain}
    entries: list[Entry] = []
    for depth, node in enumerate(chain):
        skips = [target for target in node.targets if target not in names]
        below = None if depth == len(chain) - 1 else len(entries) + 1 + 2 * len(skips)
        entries.append(Entry(node.name, depth, replaces=below))
        for skip_depth, skipped in enumerate(skips, start=depth + 1):
            entries += [Entry(skipped, skip_depth), Entry(node.name, skip_depth, replaces=len(entries))]
    return ChannelGraph(
        name, chain[0].name, tuple(entries), tuple(Node(node.name, node.version, "", ()) for node in chain)
    )
