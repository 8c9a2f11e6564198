"""Update edges of bundles that substitute others (``olm.substitutesFor``).

The substitutes of a bundle form a chain in order of version: the lowest substitutes the bundle, the next one that, etc.
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
