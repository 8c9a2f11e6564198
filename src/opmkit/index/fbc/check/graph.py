"""Rules for the update graph of a channel: one head, no cycle, no stranded bundles.

The rules are those of the newest Go opm. The head is the entry that no other entry replaces or skips. From it, the
chain of ``replaces`` leads down to an entry that is skipped, or that is not in the channel. Entries that are neither
on the chain nor skipped are stranded. Skip ranges do not matter here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.suggestions import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.fbc.blobs import EntryBlob

STRANDED = "stranded"
"""Label of entries that no update leads through."""
_NUMBERS = re.compile(r"([0-9]{1,18})")


class GraphProblem(Struct, frozen=True):
    """A problem of an update graph.

    Attributes:
        message: The problem, worded as in Go opm.
        explanation: Details of the problem.
        hint: How to solve it, as one sentence.
        label: The problem of each of ``names``, in a few words.
        names: The entries, or bundles that entries update, that have the problem.
    """

    message: str
    explanation: str
    hint: str
    label: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        """Return the message with the explanation."""
        return f"{self.message} ({self.explanation})"


def channel_heads(entries: Iterable[EntryBlob]) -> tuple[str, ...]:
    """Return the sorted names that no entry replaces or skips; a valid channel has exactly one."""
    known = list(entries)
    return tuple(sorted({entry.name for entry in known} - _updaters(known).keys()))


def check_graph(entries: Sequence[EntryBlob], *, stop_at_skipped: bool = True) -> GraphProblem | None:
    """Return the first problem of the graph of a channel's entries, if any; entries without a name are ignored.

    Args:
        entries: The entries of one channel.
        stop_at_skipped: Whether the chain ends at a skipped entry, as in Go opm 1.58 and later.
    """
    entries = [entry for entry in entries if entry.name]
    if not entries:
        return None
    updaters = _updaters(entries)
    heads = channel_heads(entries)
    if not heads:
        return _no_head(updaters)
    if len(heads) > 1:
        return _multiple_heads(heads, {entry.name: entry.replaces for entry in entries})
    return _check_chain(heads[0], entries, stop_at_skipped=stop_at_skipped)


def _updaters(entries: Iterable[EntryBlob]) -> Mapping[str, list[tuple[str, str]]]:
    """Map each name that is replaced or skipped to the verbs and names of its updaters: ``("replaces", "b.v2")``."""
    updaters: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in entries:
        if entry.replaces:
            updaters[entry.replaces].append(("replaces", entry.name))
        for skip in filter(None, entry.skips):
            updaters[skip].append(("skips", entry.name))
    return updaters


def _no_head(updaters: Mapping[str, list[tuple[str, str]]]) -> GraphProblem:
    """Find a cycle: without a head, each entry has an updater, so following the updaters leads to one."""
    path: dict[str, str] = {}  # visited names with the edge to their updater
    name = max(updaters, key=natural_key)
    while name not in path:
        verb, updater = updaters[name][0]
        path[name] = f"{updater} {verb} {name}"
        name = updater
    cycle = list(path.values())[list(path).index(name) :]
    return GraphProblem(
        "no channel head found in graph",
        f"each entry is replaced or skipped, with the cycle: {shorten(cycle)}",
        f"Remove an edge to the newest entry, such as: {cycle[0]}.",
        "in a cycle",
        tuple(list(path)[list(path).index(name) :]),
    )


def _multiple_heads(heads: tuple[str, ...], replaces: Mapping[str, str]) -> GraphProblem:
    """Return the problem of several heads, and name those that replace what is not there, usually by a wrong name."""
    *older, newest = sorted(heads, key=natural_key)
    missing = {head: replaces[head] for head in heads if replaces[head] and replaces[head] not in replaces}
    explanation = "no entry of the channel replaces or skips them, and a channel can have only one head"
    hint = f'Let the newest entry, or one below it, replace or skip all others; if it is {newest}, add "skips: ['
    hint += f'{shorten(older)}]"'
    if missing:
        absent, verb = ("is", "replaces") if len(missing) == 1 else ("are", "replace")
        edges = shorten([f"{head} replaces {name}" for head, name in missing.items()])
        explanation = f"{edges}, which {absent} not in the channel; {explanation}"
        hint += f", or correct what {shorten([*missing], ' and ')} {verb}"
    return GraphProblem(
        f"multiple channel heads found in graph: {', '.join(heads)}",
        explanation,
        f"{hint}.",
        f"one of {len(heads)} heads",
        (newest, *reversed(older)),
    )


def _check_chain(head: str, entries: Sequence[EntryBlob], *, stop_at_skipped: bool) -> GraphProblem | None:
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chain = {head: None}  # an ordered set
    entry = by_name.get(head)
    while entry and entry.replaces and not (stop_at_skipped and entry.replaces in skipped):
        if entry.replaces in chain:
            return _cycle(list(chain), entry.replaces)
        chain[entry.replaces] = None
        entry = by_name.get(entry.replaces)
    stranded = sorted(by_name.keys() - chain.keys() - skipped)
    return _stranded(stranded, list(chain), entry.replaces if entry else "") if stranded else None


def _cycle(chain: list[str], repeated: str) -> GraphProblem:
    cycle = chain[chain.index(repeated) :]
    return GraphProblem(
        f"detected cycle in replaces chain of upgrade graph: {' -> '.join([*cycle, repeated])}",
        f"the chain from the head {chain[0]} never ends",
        f"Remove one of these edges, usually that of the oldest entry: {cycle[-1]} replaces {repeated}.",
        "in a cycle",
        tuple(cycle),
    )


def _stranded(stranded: list[str], chain: list[str], skipped: str) -> GraphProblem:
    end = f", which ends there because {skipped} is skipped" if skipped else ""
    return GraphProblem(
        f"channel contains one or more stranded bundles: {', '.join(stranded)}",
        f"no entry skips them, and they are not on the chain from the head: {shorten(chain, ' -> ')}{end}",
        f'Let an entry of the chain skip them, for example {chain[0]} with "skips: [{shorten(stranded)}]", '
        "or let the last entry of the chain replace the newest of them.",
        STRANDED,
        tuple(stranded),
    )


def natural_key(name: str) -> list[str | int]:
    """Return a sort key that orders numbers within names by value: v9 before v10."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(name)]
