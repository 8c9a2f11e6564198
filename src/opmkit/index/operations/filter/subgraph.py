"""The smallest part of a channel that has what is wanted and is a valid graph by itself.

What a graph must be is told in `graphcheck`: one head, and everything on the chain from there or skipped. Edges are
kept as they are: a new edge would be an update that nobody has tested.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from opmkit.index.fbc.check.graph import check_graph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from opmkit.index.fbc.blobs import EntryBlob


def needed_entries(entries: Sequence[EntryBlob], chosen: Collection[str]) -> dict[str, str]:
    """The names of the entries of a valid graph that must stay beside the chosen ones, and why each must.

    No one of them can be spared. Where there is a choice, the earlier in ``entries`` stay: they come in the order of
    their versions. ``chosen`` are names of entries, at least one.
    """
    if not check_graph([entry for entry in entries if entry.name in chosen]):
        return {}
    count = len(entries) + 1
    while len(entries) < count:
        count = len(entries)
        entries = _spared(_leading_to(entries, chosen), chosen)
    graph = _Graph(entries)
    return {entry.name: _reason(graph, entry.name, chosen) for entry in entries if entry.name not in chosen}


def _leading_to(entries: Sequence[EntryBlob], chosen: Collection[str]) -> list[EntryBlob]:
    """The entries that updates go to from the chosen ones, and the head; again they are a valid graph."""
    graph = _Graph(entries)
    found, waiting = {graph.head, *chosen}, list(chosen)
    while waiting:
        new = graph.updaters[waiting.pop()] - found
        found |= new
        waiting += new
    return [entry for entry in entries if entry.name in found]


def _spared(entries: Sequence[EntryBlob], chosen: Collection[str]) -> list[EntryBlob]:
    """What is left of a valid graph when all that can be is taken out, always the latest that can be."""
    graph = _Graph(entries)
    latest_first = [entry.name for entry in reversed(entries) if entry.name not in chosen]
    while (name := next(filter(graph.can_spare, latest_first), None)) is not None:
        graph.take_out(name)
        latest_first.remove(name)
    return [entry for entry in entries if entry.name in graph.entries]


class _Graph:
    """A valid graph from which entries are taken.

    ``updaters`` are those that replace or skip an entry, and ``only`` counts the entries that one alone updates.
    """

    def __init__(self, entries: Iterable[EntryBlob]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.skippers: defaultdict[str, set[str]] = defaultdict(set)
        self.updaters: defaultdict[str, set[str]] = defaultdict(set)
        for entry in self.entries.values():
            for skip in entry.skips:
                self.skippers[skip].add(entry.name)
            for below in _below(entry):
                self.updaters[below].add(entry.name)
        self.only = Counter(updater for name in self.entries for updater in self._only_updater(name))
        self.head = next(name for name in self.entries if not self.updaters[name])

    def _only_updater(self, name: str) -> Iterator[str]:
        if len(self.updaters[name]) == 1:
            yield from self.updaters[name] - {name}

    def left_by(self, name: str) -> list[str]:
        """What only this one updates, in order."""
        below = _below(self.entries[name]) & self.entries.keys() - {name}
        return sorted(one for one in below if self.updaters[one] == {name})

    def can_spare(self, name: str) -> bool:
        """Whether the graph is valid without an entry."""
        if self.only[name] != (name == self.head):  # there would be several heads, or none
            return False
        head = self.left_by(name)[0] if name == self.head else self.head
        chain = self.chain(head, without=name)
        return chain is not None and all(
            one in chain or self.skippers[one] - {name} for one in self.entries if one != name
        )

    def chain(self, head: str, *, without: str = "") -> dict[str, None] | None:
        """The chain from a head, in order; None if it is a circle."""
        chain = {head: None}
        below = self.entries[head].replaces
        while below in self.entries and below != without and not self.skippers[below] - {without}:
            if below in chain:
                return None
            chain[below] = None
            below = self.entries[below].replaces
        return chain

    def take_out(self, name: str) -> None:
        """Take out one that can be spared."""
        if name == self.head:
            (self.head,) = self.left_by(name)
        self.only.subtract(self._only_updater(name))
        for below in _below(self.entries.pop(name)):
            self.skippers[below].discard(name)
            self.updaters[below].discard(name)
            if below in self.entries:
                self.only.update(self._only_updater(below))


def _below(entry: EntryBlob) -> set[str]:
    """What it replaces or skips."""
    return {entry.replaces, *entry.skips} - {""}


def _reason(graph: _Graph, name: str, chosen: Collection[str]) -> str:
    chain = list(graph.chain(graph.head) or ())
    if name in chain[1:-1]:
        place = chain.index(name)
        above = next((one for one in reversed(chain[:place]) if one in chosen), chain[0])
        below = next((one for one in chain[place:] if one in chosen), chain[-1])
        return f"it lies between {above} and {below} on the replaces chain"
    if left := graph.left_by(name):
        return f"nothing else that stays replaces or skips {', '.join(left)}"
    fault = check_graph([entry for entry in graph.entries.values() if entry.name != name])
    return f"without it: {fault.problem}" if fault else ""
