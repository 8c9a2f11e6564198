"""Bundles that substitute others: what that does to the edges of both and of their neighbours (index semantics, 8).

The bundles that substitute one bundle form a chain by version: the lowest substitutes the bundle, the next that one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError
from opmkit.index.graph.version import precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.index.graph.values import Node


def substituted_edges(present: Mapping[str, Node], added: Iterable[Node]) -> dict[str, Node]:
    """The edges of the ``added`` bundles, and of those ``present`` whose edges change with them, by name.

    The bundles are added one after the other, in the order given. What is stored in the ClusterServiceVersions does
    not change.

    Raises:
        GraphError: a version that can't be ordered, equal versions, or a cycle among the bundles that substitute.
    """
    nodes = dict(present)
    for node in added:
        nodes |= _with_substitutes(nodes, node)
    return {name: node for name, node in nodes.items() if present.get(name) != node}


def _with_substitutes(nodes: Mapping[str, Node], new: Node) -> dict[str, Node]:
    """The new bundle and those that change with it."""
    changed = {new.name: new}
    if new.substitutes_for:
        for name, node in nodes.items():
            if node.replaces == new.substitutes_for:
                changed[name] = replace(node, replaces=new.name)
        changed |= _entered_chain({**nodes, **changed}, new)
    everything = {**nodes, **changed}
    substitutes = {node.substitutes_for: name for name, node in everything.items() if node.substitutes_for}
    substituted = {name: node.substitutes_for for name, node in everything.items() if node.substitutes_for}
    skips = [*new.skips, *_chain(substituted, new.name)]
    for name in _chain(substitutes, new.name):
        skipping = dict.fromkeys([*everything[name].skips, *skips, new.name])
        changed[name] = replace(everything[name], skips=tuple(skipping))
    widened = [name for skipped in skips for name in (skipped, *_chain(substitutes, skipped, end=new.name))]
    changed[new.name] = replace(
        changed[new.name],
        replaces=[new.replaces, *_chain(substitutes, new.replaces)][-1],
        skips=tuple(dict.fromkeys(widened)),
    )
    return changed


def _entered_chain(nodes: Mapping[str, Node], new: Node) -> dict[str, Node]:
    """Put a bundle among those that substitute the same one: it, and the one that substitutes it now, if any."""
    substitutes = {node.substitutes_for: name for name, node in nodes.items() if name != new.name}
    version, below = precedence(new.version), new.substitutes_for
    for above in _chain(substitutes, new.substitutes_for):
        if precedence(nodes[above].version) == version:
            raise GraphError(
                f"bundles {above} and {new.name} both substitute {below} and have the same version {new.version}",
                advice="Give one of them a higher version; build metadata (1.2.3+1) is enough.",
            )
        if precedence(nodes[above].version) > version:
            return {
                new.name: replace(new, substitutes_for=below),
                above: replace(nodes[above], substitutes_for=new.name),
            }
        below = above
    return {new.name: replace(new, substitutes_for=below)}


def _chain(links: Mapping[str, str], start: str, end: str = "") -> list[str]:
    """The names that follow ``start``, up to and without ``end``."""
    chain: list[str] = []
    name = links.get(start)
    while name and name != end:
        if name == start or name in chain:
            raise GraphError(
                f"the bundles {' -> '.join([start, *chain, name])} substitute each other in a cycle",
                advice="Remove the annotation olm.substitutesFor from one of them.",
            )
        chain.append(name)
        name = links.get(name)
    return chain
