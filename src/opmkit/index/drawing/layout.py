"""Where the bundles of a channel go in a drawing: a row for each, the newest at the top, in lanes side by side.

A bundle is above all that it replaces or skips, and beyond that above those of lower versions. From one that replaces
another a lane leads down to it; a chain of updates keeps to its lane.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import EntryBlob
from opmkit.index.fbc.versions import MIN_VERSION_KEY, parse_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import ChannelBlob

MAX_LANES = 24
"""Lanes side by side; what would need more shares the last."""


@dataclass(frozen=True, slots=True)
class Row:
    """A bundle in a channel. Other rows are told by their numbers, from 0 at the top.

    ``lanes`` are in use beside it, its own included. ``is_entry`` is False for one that the channel only names.
    ``rank`` is its place among all rows by rising version. Versions of the ranks ``in_range`` are in its skip range,
    each span up to but not with its second number.
    """

    name: str
    lane: int
    lanes: int
    rank: int
    is_entry: bool
    replaces: int | None = None
    skips: tuple[int, ...] = ()
    skip_range: str = ""
    in_range: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelLayout:
    """The rows of a channel."""

    rows: tuple[Row, ...]


class EdgeType(StrEnum):
    """What an update is there for; where it is for several, the first counts."""

    REPLACES = "replaces"
    SKIPS = "skips"
    RANGE = "skip range"


def layout_edges(drawn: ChannelLayout) -> Iterator[tuple[int, int, EdgeType]]:
    """All updates of a channel, each once: from a row to a newer one."""
    by_rank = {row.rank: number for number, row in enumerate(drawn.rows) if row.is_entry}
    for newer, row in enumerate(drawn.rows):
        seen = {newer}
        if row.replaces is not None and row.replaces not in seen:
            seen.add(row.replaces)
            yield row.replaces, newer, EdgeType.REPLACES
        for older in row.skips:
            if older not in seen:
                seen.add(older)
                yield older, newer, EdgeType.SKIPS
        for start, end in row.in_range:
            for rank in range(start, end):
                if by_rank.get(rank, newer) not in seen:
                    yield by_rank[rank], newer, EdgeType.RANGE


def layout_channel(channel: ChannelBlob, keys: Mapping[str, VersionKey]) -> ChannelLayout:
    """Lay out a channel, whether or not it is valid; ``keys`` has the versions of bundles by their names."""
    named = {entry.name for entry in channel.entries}
    outside = dict.fromkeys(
        name for entry in channel.entries for name in (entry.replaces, *entry.skips) if name and name not in named
    )
    entries = [*channel.entries, *map(EntryBlob, outside)]
    by_rank = sorted(range(len(entries)), key=lambda number: keys.get(entries[number].name, MIN_VERSION_KEY))
    ranks = {number: rank for rank, number in enumerate(by_rank)}
    order = _order(entries, by_rank)
    rows = {entries[number].name: row for row, number in reversed(list(enumerate(order)))}
    lanes = _lanes([rows.get(entries[number].replaces) for number in order])
    versions = [keys.get(entries[number].name, MIN_VERSION_KEY) for number in by_rank]
    made = (
        _row(entries[number], lane, ranks[number], rows, versions, is_entry=number < len(channel.entries))
        for number, lane in zip(order, lanes, strict=True)
    )
    return ChannelLayout(tuple(made))


def _row(
    entry: EntryBlob,
    lane: tuple[int, int],
    rank: int,
    rows: Mapping[str, int],
    versions: Sequence[VersionKey],
    *,
    is_entry: bool,
) -> Row:
    skips = tuple(dict.fromkeys(rows[name] for name in entry.skips if name))
    return Row(
        entry.name,
        *lane,
        rank,
        is_entry,
        rows.get(entry.replaces) if entry.replaces else None,
        skips,
        entry.skip_range,
        _in_range(entry.skip_range, versions),
    )


def _in_range(text: str, versions: Sequence[VersionKey]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple(parse_range(text).spans(versions)) if text else ()
    except ValueError:
        return ()


def _order(entries: Sequence[EntryBlob], by_rank: Sequence[int]) -> list[int]:
    """The numbers of the entries from the top to the bottom; a cycle is cut above its highest version."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries):
        numbers.setdefault(entry.name, number)
    below = [{numbers[name] for name in (one.replaces, *one.skips) if name} for one in entries]
    above = [0] * len(entries)
    for targets in below:
        for number in targets:
            above[number] += 1
    falling = {number: -rank for rank, number in enumerate(by_rank)}
    ready = [(falling[number], number) for number in range(len(entries)) if not above[number]]
    heapq.heapify(ready)
    highest = list(by_rank)
    order: dict[int, None] = {}
    while len(order) < len(entries):
        if ready:
            _, number = heapq.heappop(ready)
        else:
            number = highest.pop()
        if number in order:
            continue
        order[number] = None
        for target in below[number]:
            above[target] -= 1
            if not above[target]:
                heapq.heappush(ready, (falling[target], target))
    return list(order)


def _lanes(replaces: Sequence[int | None]) -> list[tuple[int, int]]:
    """The lane of each row, and how many are in use there, where each replaces the row of that number."""
    waiting: list[int | None] = []
    lanes = []
    for row, target in enumerate(replaces):
        wanted = row if row in waiting else None
        lane = waiting.index(wanted) if wanted in waiting else min(len(waiting), MAX_LANES - 1)
        used = max(len(waiting), lane + 1)
        waiting = [None if one == row else one for one in (*waiting, *(None,) * (used - len(waiting)))]
        if target is not None and target > row:
            waiting[lane] = target
        while waiting and waiting[-1] is None:
            waiting.pop()
        lanes.append((lane, used))
    return lanes
