"""The rules of the update graph of a channel: one head, no cycle, and nothing that is left behind.

They are those of the newest reference. An entry is the head if none replaces or skips it; from there the ``replaces``
chain leads down, up to an entry that is skipped, and all that is neither on the chain nor skipped is stranded. The last
``replaces`` may name what is not in the channel, and skip ranges count for nothing here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.fbc.blobs import EntryBlob

_NUMBERS = re.compile(r"([0-9]{1,18})")
_SHOWN = 8
"""Names in an explanation; what is at fault is always named in full."""


@dataclass(frozen=True, slots=True)
class GraphFinding:
    """What is wrong with a graph, in the words that the reference has for it and in more; and what would mend it."""

    problem: str
    explanation: str
    advice: str

    def __str__(self) -> str:
        """The problem and why it is one."""
        return f"{self.problem} ({self.explanation})"


def channel_heads(entries: Iterable[EntryBlob]) -> tuple[str, ...]:
    """The names that no entry replaces or skips, sorted; a valid channel has one."""
    known = list(entries)
    return tuple(sorted({entry.name for entry in known} - _updated(known).keys()))


def check_graph(entries: Sequence[EntryBlob], *, stop_at_skipped: bool = True) -> GraphFinding | None:
    """What is wrong with the graph of a channel's entries; None if nothing is, or if there are none with a name.

    ``stop_at_skipped`` tells that the chain ends where it comes to a skipped entry, as it does since release 1.58 of
    the reference.
    """
    entries = [entry for entry in entries if entry.name]
    if not entries:
        return None
    updated = _updated(entries)
    heads = channel_heads(entries)
    if not heads:
        return _no_head(updated)
    if len(heads) > 1:
        return _several_heads(heads)
    return _chain_fault(heads[0], entries, stop_at_skipped=stop_at_skipped)


def _updated(entries: Iterable[EntryBlob]) -> Mapping[str, list[tuple[str, str]]]:
    """The names that entries replace or skip, and which do: ``("replaces", "b.v2")``."""
    updated: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.replaces:
            updated[entry.replaces].append(("replaces", entry.name))
        for skip in filter(None, entry.skips):
            updated[skip].append(("skips", entry.name))
    return updated


def _no_head(updated: Mapping[str, list[tuple[str, str]]]) -> GraphFinding:
    """Each entry is updated by another, so that going from one to what updates it comes round."""
    path: dict[str, str] = {}  # the names passed, each with the edge that leads on from it
    name = max(updated, key=_by_numbers)
    while name not in path:
        verb, updater = updated[name][0]
        path[name] = f"{updater} {verb} {name}"
        name = updater
    circle = list(path.values())[list(path).index(name) :]
    return GraphFinding(
        "no channel head found in graph",
        f"each entry is replaced or skipped; in a circle: {_some(circle, ', ')}",
        f"The newest entry must not be replaced or skipped: take out one of these, such as that {circle[0]}.",
    )


def _several_heads(heads: tuple[str, ...]) -> GraphFinding:
    *older, newest = sorted(heads, key=_by_numbers)
    return GraphFinding(
        f"multiple channel heads found in graph: {', '.join(heads)}",
        "nothing in the channel replaces or skips them, and users can be led to one only",
        f"Let the newest, or an entry below it, replace or skip all others: if it is {newest}, "
        f'with "skips: [{_some(older, ", ")}]".',
    )


def _chain_fault(head: str, entries: Sequence[EntryBlob], *, stop_at_skipped: bool) -> GraphFinding | None:
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chain = {head: None}  # a set that keeps its order
    entry = by_name.get(head)
    while entry and entry.replaces and not (stop_at_skipped and entry.replaces in skipped):
        if entry.replaces in chain:
            return _cycle(list(chain), entry.replaces)
        chain[entry.replaces] = None
        entry = by_name.get(entry.replaces)
    stranded = sorted(by_name.keys() - chain.keys() - skipped)
    return _stranded(stranded, list(chain), entry.replaces if entry else "") if stranded else None


def _cycle(chain: list[str], again: str) -> GraphFinding:
    circle = chain[chain.index(again) :]
    return GraphFinding(
        f"detected cycle in replaces chain of upgrade graph: {' -> '.join([*circle, again])}",
        f"from the head {chain[0]}, an update would never come to an end",
        f"Take out one of these, as a rule that of the oldest: {circle[-1]} replaces {again}.",
    )


def _stranded(stranded: list[str], chain: list[str], skipped: str) -> GraphFinding:
    end = f", which ends there, for {skipped} is skipped" if skipped else ""
    return GraphFinding(
        f"channel contains one or more stranded bundles: {', '.join(stranded)}",
        f"nothing skips them, and they are not on the chain from the head: {_some(chain, ' -> ')}{end}",
        f'Let an entry of the chain skip them, such as {chain[0]} with "skips: [{_some(stranded, ", ")}]", '
        "or let the last of the chain replace the newest of them.",
    )


def _by_numbers(name: str) -> list[str | int]:
    """Sorts names by the numbers in them: v9 before v10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(name)]


def _some(texts: Sequence[str], joint: str) -> str:
    """The first and the last of them, if they are many."""
    if len(texts) <= _SHOWN:
        return joint.join(texts)
    return joint.join([*texts[: _SHOWN - 2], "...", texts[-1]])
