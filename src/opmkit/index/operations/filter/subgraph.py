"""The smallest valid update graph that contains some entries of a channel.

A valid graph has a single head, and each entry is on the replaces chain from it or skipped; see
:mod:`opmkit.index.fbc.check.graph`. Edges are never added, since a new edge would be an upgrade that nobody tested.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from opmkit.index.fbc.check.graph import check_graph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from opmkit.index.fbc.blobs import EntryBlob


def needed_entries(entries: Sequence[EntryBlob], selected: Collection[str]) -> dict[str, str]:
    """Return the names of the entries that a valid graph needs in addition to the selected ones, with the reasons.

    The result is minimal. Of alternatives the earlier in ``entries`` is chosen, which are in ascending order of
    version. ``selected`` contains the name of at least one entry.
    """
    if not check_graph([entry for entry in entries if entry.name in selected]):
        return {}
    count = len(entries) + 1
    while len(entries) < count:
        count = len(entries)
        entries = _minimize(_above(entries, selected), selected)
    graph = _Graph(entries)
    return {entry.name: _reason(graph, entry.name, selected) for entry in entries if entry.name not in selected}


def _above(entries: Sequence[EntryBlob], selected: Collection[str]) -> list[EntryBlob]:
    """Return the entries that the selected ones can be updated to, and the head: a valid graph as well."""
    graph = _Graph(entries)
    found, waiting = {graph.head, *selected}, list(selected)
    while waiting:
        new = graph.updaters[waiting.pop()] - found
        found |= new
        waiting += new
    return [entry for entry in entries if entry.name in found]


def _minimize(entries: Sequence[EntryBlob], selected: Collection[str]) -> list[EntryBlob]:
    """Remove entries from a valid graph as long as it stays valid, the latest first."""
    graph = _Graph(entries)
    latest_first = [entry.name for entry in reversed(entries) if entry.name not in selected]
    while (name := next(filter(graph.can_remove, latest_first), None)) is not None:
        graph.remove(name)
        latest_first.remove(name)
    return [entry for entry in entries if entry.name in graph.entries]


class _Graph:
    """A valid graph from which entries are removed.

    ``updaters`` maps each entry to those that replace or skip it. ``sole_updates`` counts for each entry the others
    that it alone replaces or skips.
    """

    def __init__(self, entries: Iterable[EntryBlob]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.skippers: defaultdict[str, set[str]] = defaultdict(set)
        self.updaters: defaultdict[str, set[str]] = defaultdict(set)
        for entry in self.entries.values():
            for skip in entry.skips:
                self.skippers[skip].add(entry.name)
            for target in _targets(entry):
                self.updaters[target].add(entry.name)
        self.sole_updates = Counter(updater for name in self.entries for updater in self._sole_updater(name))
        self.head = next(name for name in self.entries if not self.updaters[name])

    def _sole_updater(self, name: str) -> Iterator[str]:
        if len(self.updaters[name]) == 1:
            yield from self.updaters[name] - {name}

    def only_updated_by(self, name: str) -> list[str]:
        """Return the entries that no other entry replaces or skips, sorted."""
        targets = _targets(self.entries[name]) & self.entries.keys() - {name}
        return sorted(target for target in targets if self.updaters[target] == {name})

    def can_remove(self, name: str) -> bool:
        """Return whether the graph is valid without an entry."""
        if self.sole_updates[name] != (name == self.head):  # else there would be several heads, or none
            return False
        head = self.only_updated_by(name)[0] if name == self.head else self.head
        chain = self.chain(head, without=name)
        return chain is not None and all(
            other in chain or self.skippers[other] - {name} for other in self.entries if other != name
        )

    def chain(self, head: str, *, without: str = "") -> dict[str, None] | None:
        """Return the replaces chain from a head, in order; None if it has a cycle."""
        chain = {head: None}
        below = self.entries[head].replaces
        while below in self.entries and below != without and not self.skippers[below] - {without}:
            if below in chain:
                return None
            chain[below] = None
            below = self.entries[below].replaces
        return chain

    def remove(self, name: str) -> None:
        """Remove an entry for which `can_remove` is true."""
        if name == self.head:
            (self.head,) = self.only_updated_by(name)
        self.sole_updates.subtract(self._sole_updater(name))
        for target in _targets(self.entries.pop(name)):
            self.skippers[target].discard(name)
            self.updaters[target].discard(name)
            if target in self.entries:
                self.sole_updates.update(self._sole_updater(target))


def _targets(entry: EntryBlob) -> set[str]:
    """Return the names that an entry replaces or skips."""
    return {entry.replaces, *entry.skips} - {""}


def _reason(graph: _Graph, name: str, selected: Collection[str]) -> str:
    chain = list(graph.chain(graph.head) or ())
    if name in chain[1:-1]:
        position = chain.index(name)
        above = next((other for other in reversed(chain[:position]) if other in selected), chain[0])
        below = next((other for other in chain[position:] if other in selected), chain[-1])
        return f"it lies between {above} and {below} on the replaces chain"
    if only := graph.only_updated_by(name):
        return f"nothing else that stays replaces or skips {', '.join(only)}"
    fault = check_graph([entry for entry in graph.entries.values() if entry.name != name])
    return f"without it: {fault.message}" if fault else ""
