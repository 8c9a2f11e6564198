"""Validation of a package that bundles were added to, with suggestions of edges that would make it valid."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint, SettingValue
from opmkit.index.errors import GraphError, InvalidCatalog
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import channel_heads, check_graph
from opmkit.index.fbc.findings import group_findings
from opmkit.index.graph import precedence
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.suggestions import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob
    from opmkit.index.fbc.compat import CatalogCompat
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.operations.add.new_bundle import NewBundle

MAX_SKIPS = 8
"""Skips that a hint suggests."""
MAX_SUGGESTIONS = 2


def validate_package(
    package: Blobs, added: Sequence[NewBundle], compat: CatalogCompat, insert: Callable[[NewBundle], Blobs]
) -> None:
    """Raise InvalidCatalog if a package is invalid with the added bundles.

    ``insert`` returns the package with one of the bundles, which may have other edges; suggestions are tested with it.
    """
    findings = check_blobs(package, compat)
    if not findings:
        return
    names = " and ".join(bundle.name for bundle in added)
    first, *others = map(_in_one_line, group_findings(findings))
    lines = [f"package {added[0].package}: invalid with {names}: {first}", *others]
    invalid = {finding.channel for finding in findings if finding.channel}
    channels = [channel for channel in package.channels if channel.name in invalid and channel.entries]
    lines += _outlines(channels)
    hints: list[Hint | str] = [
        *_suggestions(package, channels, added, insert),
        *(finding.hint for finding in findings),
    ]
    raise InvalidCatalog(lines[0], details=lines[1:], hint=next((hint for hint in hints if hint), ""))


def _outlines(channels: Iterable[ChannelBlob]) -> Iterator[str]:
    """Yield the chains of the channels; those of several channels only once."""
    names: dict[str, list[str]] = {}
    for channel in channels:
        names.setdefault("; ".join(_chains(channel)), []).append(channel.name)
    for chains, group in names.items():
        yield f"{'channel' if len(group) == 1 else 'channels'} {', '.join(group)} would be: {chains}"


def _in_one_line(group: Sequence[CatalogFinding]) -> str:
    """Return the first finding of a group, and the channels of the others."""
    channels = [finding.channel for finding in group[1:] if finding.channel]
    return f"{group[0]}; also in {', '.join(channels)}" if channels else str(group[0])


def _chains(channel: ChannelBlob) -> Iterator[str]:
    """Yield the replaces chain of each head, or of the last entry if no entry is a head."""
    by_name = {entry.name: entry for entry in channel.entries}
    for head in channel_heads(channel.entries) or [channel.entries[-1].name]:
        names = [head]
        while (entry := by_name.get(names[-1])) and entry.replaces and entry.replaces not in names:
            names.append(entry.replaces)
        skips = by_name[head].skips
        yield shorten(names, " -> ") + (f" ({head} skips {', '.join(skips)})" if skips else "")


def _suggestions(
    package: Blobs, channels: Iterable[ChannelBlob], added: Sequence[NewBundle], insert: Callable[[NewBundle], Blobs]
) -> Iterator[Hint]:
    """Yield hints for those of the bundles that head a channel with an invalid graph."""
    broken = [channel for channel in channels if check_graph(channel.entries)]
    heads = {head for channel in broken for head in channel_heads(channel.entries)}
    for bundle in added:
        if bundle.name in heads:
            yield _hint_for_lower_version(package, broken, bundle) or _hint_for_edges(package, bundle, insert)


def _hint_for_lower_version(package: Blobs, channels: Iterable[ChannelBlob], bundle: NewBundle) -> Hint:
    """Return the hint for a bundle with a lower version than another head, empty if there is no such head."""
    for channel in channels:
        heads = channel_heads(channel.entries)
        if bundle.name in heads and (top := _by_version(package, heads)[-1]) != bundle.name:
            return Hint.any_of(
                f"{bundle.name} is below {top}: replace or skip it in an entry of channel {channel.name} above it",
                Hint("add it to another channel with {}", IndexSetting.CHANNEL),
            )
    return Hint()


def _hint_for_edges(package: Blobs, bundle: NewBundle, insert: Callable[[NewBundle], Blobs]) -> Hint:
    """Return the hint with edges that make all channels of a bundle valid, empty if no short enough ones are found."""
    valid = [edges for edges, candidate in _candidates(package, bundle) if _is_valid(candidate, insert)]
    if not valid:
        return Hint()
    suggested = valid[:MAX_SUGGESTIONS]
    placeholders = ", or ".join(" ".join(["{}"] * len(edges)) for edges in suggested)
    return Hint(f"let {{}} update from existing bundles: {placeholders}", bundle.name, *chain(*suggested))


def _is_valid(bundle: NewBundle, insert: Callable[[NewBundle], Blobs]) -> bool:
    try:
        channels = insert(bundle).channels
    except GraphError:
        return False
    return not any(check_graph(channel.entries) for channel in channels if channel.name in bundle.channels)


def _candidates(package: Blobs, bundle: NewBundle) -> Iterator[tuple[tuple[SettingValue, ...], NewBundle]]:
    """Yield settings for other edges, the simplest first, and the bundle with these edges."""
    channels = [channel for channel in package.channels if channel.name in bundle.channels]
    names = _by_version(package, {entry.name for channel in channels for entry in channel.entries} - {bundle.name})
    if not names:
        return
    top, heads = names[-1], {head for channel in channels for head in channel_heads(channel.entries)}
    replacing = replace(bundle, replaces=top)
    replaces_top = IndexSetting.REPLACES.with_value(top)
    yield (replaces_top,), replacing
    for skippable, base in ((heads, bundle), (heads, replacing), (names, bundle)):
        below = [name for name in names if name in skippable and name != base.replaces]
        skips = tuple(dict.fromkeys([*bundle.skips, *below]))
        if skips != bundle.skips and len(skips) <= MAX_SKIPS:
            replaces = (replaces_top,) if base is replacing else ()
            yield (*replaces, IndexSetting.SKIPS.with_value(",".join(skips))), replace(base, skips=skips)


def _by_version(package: Blobs, names: Iterable[str]) -> list[str]:
    """Sort bundle names by ascending version, those without a valid version first."""
    versions = {bundle.name: bundle_version(bundle) for bundle in package.bundles}

    def order(name: str) -> tuple[object, ...]:
        try:
            return precedence(versions[name]), name
        except (GraphError, KeyError):
            return (), name

    return sorted(names, key=order)
