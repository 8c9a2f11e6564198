"""Why bundles can't be added to a package: what would be wrong with it, and what would mend it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Setting, SettingValue
from opmkit.index.errors import GraphError, InvalidCatalog
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import channel_heads, check_graph
from opmkit.index.graph import precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob
    from opmkit.index.fbc.compat import Compat
    from opmkit.index.operations.values import Arrival

_SHOWN = 8
"""Entries of a chain that are shown, and names that a remedy may have."""
_WAYS = 2
"""Remedies that are told."""


def refuse_additions(
    parts: Blobs, arrivals: Sequence[Arrival], compat: Compat, attempt: Callable[[Arrival], Blobs]
) -> None:
    """Raise InvalidCatalog if a package would not be valid with the bundles that were added to it.

    ``attempt`` gives the package as it would be if one of them had other edges.
    """
    faults = check_blobs(parts, compat)
    if not faults:
        return
    added = " and ".join(arrival.name for arrival in arrivals)
    told = [f"package {arrivals[0].package} would not be valid with {added}: {faults[0]}", *map(str, faults[1:])]
    names = {fault.subject.channel for fault in faults if fault.subject.channel}
    at_fault = [channel for channel in parts.channels if channel.name in names and channel.entries]
    told += [f"channel {channel.name} would be: {'; '.join(_lines(channel))}" for channel in at_fault]
    remedies: list[Hint | str] = [*_remedies(parts, at_fault, arrivals, attempt), *(fault.advice for fault in faults)]
    raise InvalidCatalog(told[0], details=told[1:], hint=next((remedy for remedy in remedies if remedy), ""))


def _lines(channel: ChannelBlob) -> Iterator[str]:
    """The chain of updates from each head, or from the last entry where there is no head."""
    by_name = {entry.name: entry for entry in channel.entries}
    for head in channel_heads(channel.entries) or [channel.entries[-1].name]:
        path = [head]
        while (entry := by_name.get(path[-1])) and entry.replaces and entry.replaces not in path:
            path.append(entry.replaces)
        shown = path if len(path) <= _SHOWN else [*path[: _SHOWN - 2], "...", path[-1]]
        skips = by_name[head].skips
        yield " -> ".join(shown) + (f" ({head} skips {', '.join(skips)})" if skips else "")


def _remedies(
    parts: Blobs, at_fault: Iterable[ChannelBlob], arrivals: Sequence[Arrival], attempt: Callable[[Arrival], Blobs]
) -> Iterator[Hint]:
    """How those of the bundles would fit that head a channel whose graph is at fault."""
    broken = [channel for channel in at_fault if check_graph(channel.entries)]
    heads = {head for channel in broken for head in channel_heads(channel.entries)}
    for arrival in arrivals:
        if arrival.name in heads:
            yield _below(parts, broken, arrival) or _ways(parts, arrival, attempt)


def _below(parts: Blobs, channels: Iterable[ChannelBlob], arrival: Arrival) -> Hint:
    """What is to be done with a bundle of a lower version than another head; empty if there is none."""
    for channel in channels:
        heads = channel_heads(channel.entries)
        if arrival.name in heads and (top := _by_version(parts, heads)[-1]) != arrival.name:
            return Hint.any_of(
                f"{arrival.name} is below {top}: replace or skip it in an entry of channel {channel.name} above it",
                Hint("add it to another channel with {}", Setting.CHANNEL),
            )
    return Hint()


def _ways(parts: Blobs, arrival: Arrival, attempt: Callable[[Arrival], Blobs]) -> Hint:
    """The edges that would make all channels of a bundle valid; empty if there are none that are short enough."""
    ways = [edges for edges, other in _others(parts, arrival) if _fits(other, attempt)][:_WAYS]
    places = ", or ".join(" ".join(["{}"] * len(edges)) for edges in ways)
    return Hint("let {} update from existing bundles: " + places, arrival.name, *chain(*ways)) if ways else Hint()


def _fits(arrival: Arrival, attempt: Callable[[Arrival], Blobs]) -> bool:
    try:
        channels = attempt(arrival).channels
    except GraphError:
        return False
    return not any(check_graph(channel.entries) for channel in channels if channel.name in arrival.channels)


def _others(parts: Blobs, arrival: Arrival) -> Iterator[tuple[tuple[SettingValue, ...], Arrival]]:
    """The bundle with edges that it might have, and the settings for them: the simpler ones first."""
    channels = [channel for channel in parts.channels if channel.name in arrival.channels]
    names = _by_version(parts, {entry.name for one in channels for entry in one.entries} - {arrival.name})
    if not names:
        return
    top, heads = names[-1], {head for channel in channels for head in channel_heads(channel.entries)}
    replacing = replace(arrival, replaces=top)
    replaces_top = Setting.REPLACES.with_value(top)
    yield (replaces_top,), replacing
    for skipped, one in ((heads, arrival), (heads, replacing), (names, arrival)):
        below = [name for name in names if name in skipped and name != one.replaces]
        skips = tuple(dict.fromkeys([*arrival.skips, *below]))
        if skips != arrival.skips and len(skips) <= _SHOWN:
            replaces = (replaces_top,) if one is replacing else ()
            yield (*replaces, Setting.SKIPS.with_value(",".join(skips))), replace(one, skips=skips)


def _by_version(parts: Blobs, names: Iterable[str]) -> list[str]:
    """Names of bundles from the lowest version to the highest; those without order come first."""
    versions = {bundle.name: bundle_version(bundle) for bundle in parts.bundles}

    def order(name: str) -> tuple[object, ...]:
        try:
            return precedence(versions[name]), name
        except (GraphError, KeyError):
            return (), name

    return sorted(names, key=order)
