"""Layout of a channel: a row for each bundle, the newest at the top, with edges in parallel lanes.

A bundle is above all bundles that it replaces or skips, and otherwise above those of lower versions. A chain of
``replaces`` stays in one lane.
"""

from __future__ import annotations

import heapq
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.index.fbc.blobs import EntryBlob
from opmkit.index.fbc.model import MIN_VERSION_KEY, parse_range
from opmkit.index.pictures.cycles import find_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import ChannelBlob

MAX_LANES = 24
"""Parallel lanes; further ones share the last."""


class Row(Struct, frozen=True):
    """A bundle of a channel; rows refer to each other by number, from 0 at the top.

    Attributes:
        name: The name of the bundle.
        lane: Its lane, from 0.
        lanes: The number of lanes in use at this row.
        rank: Its position among all rows in ascending order of versions, from 0.
        is_entry: Whether it is an entry of the channel, and not only named by others.
        replaces: The row that it replaces.
        skips: The rows that it skips.
        skip_range: Its skip range.
        in_range: Half-open spans of the ranks in the skip range.
        cycle: The number of the cycle of replaces and skips edges that contains it, None for no cycle. Edges between
            rows of the same number are part of the cycle.
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
    cycle: int | None = None

    @property
    def targets(self) -> tuple[int, ...]:
        """Return the rows that it replaces or skips."""
        return self.skips if self.replaces is None else (self.replaces, *self.skips)


class ChannelLayout(Struct, frozen=True):
    """The rows of a channel, from top to bottom."""

    rows: tuple[Row, ...]


class EdgeType(StrEnum):
    """The field that defines an update edge; the first of them if several do."""

    REPLACES = "replaces"
    SKIPS = "skips"
    SKIP_RANGE = "skip range"


def layout_edges(layout: ChannelLayout) -> Iterator[tuple[int, int, EdgeType]]:
    """Yield each update edge of a channel once, as the rows of the older and the newer bundle and the type."""
    by_rank = {row.rank: number for number, row in enumerate(layout.rows) if row.is_entry}
    for newer, row in enumerate(layout.rows):
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
                    yield by_rank[rank], newer, EdgeType.SKIP_RANGE


def layout_channel(channel: ChannelBlob, keys: Mapping[str, VersionKey]) -> ChannelLayout:
    """Lay out a channel, which may be invalid; ``keys`` has the version keys of bundles by name."""
    names = {entry.name for entry in channel.entries}
    outside = dict.fromkeys(
        name for entry in channel.entries for name in (entry.replaces, *entry.skips) if name and name not in names
    )
    entries = [*channel.entries, *map(EntryBlob, outside)]
    by_rank = sorted(range(len(entries)), key=lambda number: keys.get(entries[number].name, MIN_VERSION_KEY))
    ranks = {number: rank for rank, number in enumerate(by_rank)}
    order = _order(entries, by_rank)
    rows = {entries[number].name: row for row, number in reversed(list(enumerate(order)))}
    lanes = _assign_lanes([rows.get(entries[number].replaces) for number in order])
    versions = [keys.get(entries[number].name, MIN_VERSION_KEY) for number in by_rank]
    laid_out = [
        _row(entries[number], lane, ranks[number], rows, versions, is_entry=number < len(channel.entries))
        for number, lane in zip(order, lanes, strict=True)
    ]
    cycles = find_cycles([row.targets for row in laid_out])
    return ChannelLayout(tuple(replace(row, cycle=cycles.get(number)) for number, row in enumerate(laid_out)))


def merged_order(channels: Iterable[ChannelBlob], keys: Mapping[str, VersionKey]) -> list[str]:
    """Return the bundles of channels from top to bottom: each above those that it replaces or skips in any channel."""
    targets: dict[str, dict[str, None]] = {}
    for channel in channels:
        for entry in channel.entries:
            targets.setdefault(entry.name, {}).update(dict.fromkeys(filter(None, (entry.replaces, *entry.skips))))
    entries = [EntryBlob(name, skips=tuple(names)) for name, names in targets.items()]
    entries += [
        EntryBlob(name)
        for name in dict.fromkeys(name for names in targets.values() for name in names)
        if name not in targets
    ]
    by_rank = sorted(range(len(entries)), key=lambda number: keys.get(entries[number].name, MIN_VERSION_KEY))
    return [entries[number].name for number in _order(entries, by_rank)]


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
        _ranks_in_range(entry.skip_range, versions),
    )


def _ranks_in_range(skip_range: str, versions: Sequence[VersionKey]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple(parse_range(skip_range).spans(versions)) if skip_range else ()
    except ValueError:
        return ()


def _order(entries: Sequence[EntryBlob], by_rank: Sequence[int]) -> list[int]:
    """Return the indexes of the entries from top to bottom; a cycle is cut above its highest version."""
    indexes: dict[str, int] = {}
    for index, entry in enumerate(entries):
        indexes.setdefault(entry.name, index)
    below = [{indexes[name] for name in (entry.replaces, *entry.skips) if name} for entry in entries]
    count_above = [0] * len(entries)
    for targets in below:
        for index in targets:
            count_above[index] += 1
    priority = {index: -rank for rank, index in enumerate(by_rank)}
    ready = [(priority[index], index) for index in range(len(entries)) if not count_above[index]]
    heapq.heapify(ready)
    ascending = list(by_rank)
    order: dict[int, None] = {}
    while len(order) < len(entries):
        if ready:
            _, index = heapq.heappop(ready)
        else:
            index = ascending.pop()
        if index in order:
            continue
        order[index] = None
        for target in below[index]:
            count_above[target] -= 1
            if not count_above[target]:
                heapq.heappush(ready, (priority[target], target))
    return list(order)


def _assign_lanes(replaces: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return the lane of each row and the number of lanes in use there; ``replaces`` has the row that each replaces."""
    targets: list[int | None] = []  # the row to which each lane leads, None for a free lane
    lanes = []
    for row, target in enumerate(replaces):
        wanted = row if row in targets else None
        lane = targets.index(wanted) if wanted in targets else min(len(targets), MAX_LANES - 1)
        used = max(len(targets), lane + 1)
        targets = [None if other == row else other for other in (*targets, *(None,) * (used - len(targets)))]
        if target is not None and target > row:
            targets[lane] = target
        while targets and targets[-1] is None:
            targets.pop()
        lanes.append((lane, used))
    return lanes
