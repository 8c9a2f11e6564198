"""Cycles of directed graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def find_cycles(targets: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the nodes that are part of cycles, with the number of their strongly connected component from 0.

    Uses Kosaraju's algorithm.

    Args:
        targets: The nodes to which the edges of each node lead.
    """
    sources: list[list[int]] = [[] for _ in targets]
    for node, others in enumerate(targets):
        for other in others:
            sources[other].append(node)
    finished = [node for nodes in _search(targets, range(len(targets))) for node in nodes]
    components = [sorted(nodes) for nodes in _search(sources, reversed(finished))]
    cyclic = sorted(nodes for nodes in components if len(nodes) > 1 or nodes[0] in targets[nodes[0]])
    return {node: number for number, nodes in enumerate(cyclic) for node in nodes}


def _search(targets: Sequence[Sequence[int]], starts: range | Iterator[int]) -> Iterator[list[int]]:
    """Yield the nodes that a depth-first search from each start newly finds, in the order in which it leaves them."""
    seen: set[int] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        left: list[int] = []
        path = [(start, iter(targets[start]))]
        while path:
            node, others = path[-1]
            following = next((other for other in others if other not in seen), None)
            if following is None:
                left.append(node)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(targets[following])))
        yield left
