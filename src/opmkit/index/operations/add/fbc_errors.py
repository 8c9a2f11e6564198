"""Why bundles can't be added to a package: what would be wrong with it, and what would mend it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
    remedies = [*_remedies(parts, at_fault, arrivals, attempt), *(fault.advice for fault in faults)]
    raise InvalidCatalog(told[0], details=told[1:], advice=next(filter(None, remedies), ""))


def _lines(channel: ChannelBlob) -> Iterator[str]:
    """The chain of updates from each head, or from the last entry where there is no head."""
    by_name = {entry.name: entry for entry in channel.entries}
    for head in channel_heads(channel.entries) or [channel.entries[-1].name]:
        chain = [head]
        while (entry := by_name.get(chain[-1])) and entry.replaces and entry.replaces not in chain:
            chain.append(entry.replaces)
        shown = chain if len(chain) <= _SHOWN else [*chain[: _SHOWN - 2], "...", chain[-1]]
        skips = by_name[head].skips
        yield " -> ".join(shown) + (f" ({head} skips {', '.join(skips)})" if skips else "")


def _remedies(
    parts: Blobs, at_fault: Iterable[ChannelBlob], arrivals: Sequence[Arrival], attempt: Callable[[Arrival], Blobs]
) -> Iterator[str]:
    """How those of the bundles would fit that head a channel whose graph is at fault."""
    broken = [channel for channel in at_fault if check_graph(channel.entries)]
    heads = {head for channel in broken for head in channel_heads(channel.entries)}
    for arrival in arrivals:
        if arrival.name in heads:
            yield _below(parts, broken, arrival) or _ways(parts, arrival, attempt)


def _below(parts: Blobs, channels: Iterable[ChannelBlob], arrival: Arrival) -> str:
    """What is to be done with a bundle of a lower version than another head; "" if there is none."""
    for channel in channels:
        heads = channel_heads(channel.entries)
        if arrival.name in heads and (top := _by_version(parts, heads)[-1]) != arrival.name:
            return (
                f"{arrival.name} is below {top}: let an entry of channel {channel.name} above it replace or skip it, "
                "or put it into another channel by --channel."
            )
    return ""


def _ways(parts: Blobs, arrival: Arrival, attempt: Callable[[Arrival], Blobs]) -> str:
    """The edges that would make all channels of a bundle valid; "" if there are none that are short enough to tell."""
    ways = [flags for flags, other in _others(parts, arrival) if _fits(other, attempt)]
    return f"Let {arrival.name} update from what is there: {', or '.join(ways[:_WAYS])}." if ways else ""


def _fits(arrival: Arrival, attempt: Callable[[Arrival], Blobs]) -> bool:
    try:
        channels = attempt(arrival).channels
    except GraphError:
        return False
    return not any(check_graph(channel.entries) for channel in channels if channel.name in arrival.channels)


def _others(parts: Blobs, arrival: Arrival) -> Iterator[tuple[str, Arrival]]:
    """The bundle with edges that it might have, and the flags for them: the simpler ones first."""
    channels = [channel for channel in parts.channels if channel.name in arrival.channels]
    names = _by_version(parts, {entry.name for one in channels for entry in one.entries} - {arrival.name})
    if not names:
        return
    top, heads = names[-1], {head for channel in channels for head in channel_heads(channel.entries)}
    replacing = replace(arrival, replaces=top)
    yield f"--replaces {top}", replacing
    for skipped, one in ((heads, arrival), (heads, replacing), (names, arrival)):
        below = [name for name in names if name in skipped and name != one.replaces]
        skips = tuple(dict.fromkeys([*arrival.skips, *below]))
        if skips != arrival.skips and len(skips) <= _SHOWN:
            replaces = f"--replaces {top} " if one is replacing else ""
            yield f"{replaces}--skips {','.join(skips)}", replace(one, skips=skips)


def _by_version(parts: Blobs, names: Iterable[str]) -> list[str]:
    """Names of bundles from the lowest version to the highest; those without order come first."""
    versions = {bundle.name: bundle_version(bundle) for bundle in parts.bundles}

    def order(name: str) -> tuple[object, ...]:
        try:
            return precedence(versions[name]), name
        except (GraphError, KeyError):
            return (), name

    return sorted(names, key=order)
