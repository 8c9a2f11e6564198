"""Why bundles can't be added to a package: what would be wrong with it, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.catalog.bundlecheck import stated_version
from opmkit.index.catalog.check import check_blobs
from opmkit.index.catalog.graphcheck import channel_heads
from opmkit.index.errors import GraphError, InvalidCatalog
from opmkit.index.graph import precedence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.index.catalog.blobs import Blobs, ChannelBlob
    from opmkit.index.catalog.dialect import Dialect
    from opmkit.index.catalog.edit.values import Arrival
    from opmkit.index.catalog.faults import Fault

_SHOWN = 8
"""Entries of a chain that are shown."""


def refuse_additions(parts: Blobs, arrivals: Sequence[Arrival], dialect: Dialect) -> None:
    """Raise InvalidCatalog if a package would not be valid with the bundles that were added to it."""
    faults = check_blobs(parts, dialect)
    if not faults:
        return
    added = " and ".join(arrival.name for arrival in arrivals)
    told = [f"package {arrivals[0].package} would not be valid with {added}:", *map(str, faults)]
    at_fault = [one for one in parts.channels if one.name in {fault.subject.channel for fault in faults}]
    told += [f"channel {channel.name} would be: {'; '.join(_lines(channel))}" for channel in at_fault]
    advice = next(filter(None, _remedies(parts, at_fault, faults, arrivals)), "")
    raise InvalidCatalog("\n".join(told), advice=advice)


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
    parts: Blobs, channels: Iterable[ChannelBlob], faults: Iterable[Fault], arrivals: Sequence[Arrival]
) -> Iterator[str]:
    """What would mend it: first where bundles that are added are further heads, then as the faults have it."""
    arriving = {arrival.name: arrival for arrival in arrivals}
    for channel in channels:
        heads = channel_heads(channel.entries)
        for name in heads if len(heads) > 1 else ():
            if name in arriving:
                yield _one_head(parts, arriving[name], channel.name, [head for head in heads if head != name])
    for fault in faults:
        yield fault.advice


def _one_head(parts: Blobs, arrival: Arrival, channel: str, others: Sequence[str]) -> str:
    """How a channel would have one head."""
    versions = {bundle.name: stated_version(bundle)[0] for bundle in parts.bundles}
    try:
        above = [name for name in others if precedence(versions[name]) > precedence(arrival.version)]
    except (GraphError, KeyError):
        above = []
    if above:
        return (
            f"{arrival.name} is below {' and '.join(above)}: let an entry of channel {channel} above it replace or "
            "skip it, or put it into another channel by --channel."
        )
    if len(others) == 1 and not arrival.replaces:
        return f"Let {arrival.name} update from the present head, by --replaces {others[0]} or --skips {others[0]}."
    skips = ",".join(dict.fromkeys([*arrival.skips, *others]))
    return f"Let {arrival.name} update from all of them, by --skips {skips}, or in its ClusterServiceVersion."
