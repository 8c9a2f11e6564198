"""The update graph of a package in the semver modes: versions alone make the edges (index semantics, section 4).

Every function looks at the bundles of a channel as a set, so the order in which they were added, in one command or in
several, makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, GraphError, combined
from opmkit.index.graph.values import ChannelGraph, Entry, Node, PackageGraph, Placed
from opmkit.index.graph.version import precedence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from opmkit.index.graph.values import Member
    from opmkit.index.graph.version import Precedence


def semver_graph(
    package: str,
    default_channel: str,
    channels: Mapping[str, Sequence[Placed]],
    added: Sequence[Member],
    *,
    skip_patch: bool = False,
) -> PackageGraph:
    """The graph of ``package`` with the ``added`` bundles, which count in the order given for the default channel.

    ``default_channel`` and ``channels`` are what the index has, empty for a new package. A bundle is put above the one
    with the next lower version and below the one with the next higher, whose other edges are dropped.

    With ``skip_patch``, the channels that bundles are added to are laid out anew: the highest bundle of each
    MAJOR.MINOR (prereleases count as lower patches) skips the others, and replaces the highest of the preceding
    MAJOR.MINOR. The other channels are left out of the result, as channels without bundles are: they stay as they are.

    Raises:
        GraphError: a version that can't be ordered or that its channel has already, a channel that is no single line
            of updates, no default channel.
    """
    arriving: dict[str, list[Member]] = {name: [] for name in channels}
    for member in added:
        for channel in dict.fromkeys(member.channels):
            arriving.setdefault(channel, []).append(member)
    default = _default_channel(package, default_channel, arriving, added)
    graphs: list[ChannelGraph] = []
    errors: list[CatalogError] = []
    for channel, members in sorted(arriving.items()):
        present = channels.get(channel, ())
        if not members and (skip_patch or not present):
            continue
        where = f"channel {channel} of package {package}"
        try:
            line = _insert(where, present, members)
            walk = _skip_patches(line) if skip_patch else _updates(where, line, {member.name for member in members})
            graphs.append(_channel(channel, walk))
        except GraphError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    return PackageGraph(package, default, tuple(graphs))


def _default_channel(package: str, current: str, channels: Collection[str], added: Iterable[Member]) -> str:
    """The last one that is named, whatever the version; where none ever was, a channel of the first bundle."""
    default = current
    for member in added:
        named = member.default_channel
        if named and named not in channels:
            raise GraphError(
                f"bundle {member.name} names the default channel {named}, which package {package} does not have; its "
                f"channels are: {', '.join(sorted(channels)) or 'none'}",
                advice=f"Name one of these in its annotations, or add a bundle in {named} in the same command.",
            )
        default = named or default or min(member.channels, default="")
    if not default:
        raise GraphError(
            f"package {package} has no default channel: its bundles name none and are in no channel",
            advice="Name at least one channel in the annotations of the bundle.",
        )
    return default


def _insert(where: str, present: Sequence[Placed], added: Sequence[Member]) -> list[Placed]:
    """All bundles of the channel, from the lowest version to the highest, with the edges that they have now."""
    arriving = {member.name for member in added}
    bundles = [*present, *(Placed(member.name, member.version, ()) for member in added)]
    order = {bundle.name: _version(where, bundle) for bundle in bundles}
    bundles.sort(key=lambda bundle: order[bundle.name])
    line: list[Placed] = []
    for lower, bundle in zip([None, *bundles], bundles, strict=False):
        if lower is None or arriving.isdisjoint((lower.name, bundle.name)):
            line.append(bundle)
            continue
        if order[lower.name][:-1] == order[bundle.name][:-1]:
            raise GraphError(
                f"{where} has the version {lower.version} ({lower.name}) already, and {bundle.name} of version "
                f"{bundle.version} is the same to it: build metadata does not count",
                advice="Give the new bundle a higher version, or add it in the mode replaces.",
            )
        line.append(Placed(bundle.name, bundle.version, (lower.name,)))
    return line


def _version(where: str, bundle: Placed) -> Precedence:
    try:
        if bundle.version:
            return precedence(bundle.version)
    except GraphError as error:
        raise GraphError(f"bundle {bundle.name} of {where}: {error.message}", advice=error.advice) from error
    raise GraphError(
        f"bundle {bundle.name} of {where} has no version",
        advice="Give its ClusterServiceVersion one, or add the bundle in the mode replaces.",
    )


def _updates(where: str, line: Sequence[Placed], added: Collection[str]) -> list[Placed]:
    """The bundles from the head down, each replaced by the one before it; all of the channel must come up once."""
    bundles = {bundle.name: bundle for bundle in line}
    targeted = {target for bundle in line for target in bundle.targets}
    heads = [bundle for bundle in line if bundle.name not in targeted]
    if line[-1].name in added:
        heads = [line[-1]]
    if len(heads) != 1:
        raise _no_line(where, f"has {_listed(heads)} as heads that nothing updates from")
    walk = heads[:1]
    while below := [target for target in walk[-1].targets if target in bundles]:
        if len(below) > 1:
            raise _no_line(where, f"lets {walk[-1].name} update from {' as well as from '.join(below)}")
        walk.append(bundles[below[0]])
        if len(walk) > len(line):
            raise _no_line(where, f"has a cycle through {walk[-1].name}")
    if left := set(line).difference(walk):
        chain = " -> ".join(bundle.name for bundle in walk)
        raise _no_line(where, f"leads from its head to {chain} and leaves out {_listed(left)}")
    return walk


def _no_line(where: str, fault: str) -> GraphError:
    return GraphError(
        f"{where} is not one line of updates, as the mode semver needs it: it {fault}",
        advice="Add to this package in the mode that its bundles were added in.",
    )


def _listed(bundles: Iterable[Placed]) -> str:
    return " and ".join(sorted(bundle.name for bundle in bundles)) or "no bundles"


def _skip_patches(line: Sequence[Placed]) -> list[Placed]:
    """The highest bundle of each MAJOR.MINOR from the head down; what it skips are targets that are not in the list."""
    groups: dict[tuple[int, int], list[Placed]] = {}
    for bundle in reversed(line):
        groups.setdefault(precedence(bundle.version)[:2], []).append(bundle)
    names = {bundle.name for bundle in line}
    following = [group[0].name for group in list(groups.values())[1:]]
    walk: list[Placed] = []
    for (highest, *patches), below in zip(groups.values(), [*following, None], strict=True):
        absent = [target for target in highest.targets if target not in names]
        targets = [*(patch.name for patch in patches), *absent, *([below] if below else [])]
        walk.append(Placed(highest.name, highest.version, tuple(targets)))
    return walk


def _channel(name: str, walk: Sequence[Placed]) -> ChannelGraph:
    """Lay out the entries: each bundle of the walk one deeper, the pairs for what it skips deeper than itself."""
    nodes = {bundle.name for bundle in walk}
    entries: list[Entry] = []
    for depth, bundle in enumerate(walk):
        skips = [target for target in bundle.targets if target not in nodes]
        below = None if depth == len(walk) - 1 else len(entries) + 1 + 2 * len(skips)
        entries.append(Entry(bundle.name, depth, replaces=below))
        for deeper, skipped in enumerate(skips, start=depth + 1):
            entries += [Entry(skipped, deeper), Entry(bundle.name, deeper, replaces=len(entries))]
    chain = tuple(Node(bundle.name, bundle.version, "", ()) for bundle in walk)
    return ChannelGraph(name, walk[0].name, tuple(entries), chain)
