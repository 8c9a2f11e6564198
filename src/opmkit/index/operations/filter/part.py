"""What is left of one package."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.errors import CatalogError, combined
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, Blobs
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.operations.deprecate import without_references
from opmkit.index.operations.filter.subgraph import needed_entries
from opmkit.index.operations.filter.values import Kept, KeptChannel
from opmkit.index.suggestions import instead, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob
    from opmkit.index.operations.filter.wanted import Wanted

Versions: TypeAlias = "Mapping[str, Version]"
"""The versions of bundles by their names, in ascending order."""


@dataclass(frozen=True, slots=True)
class Part:
    """The blobs that are left of a package, and what is to be said of them."""

    blobs: Blobs
    channels: tuple[KeptChannel, ...]
    kept: tuple[Kept, ...]


def part_of(package: Blobs, wanted: Iterable[Wanted], default_channel: str = "") -> Part:
    """What is left of a valid package where this is wanted of it; "" leaves it its default channel.

    Raises:
        CatalogError: it has no such channel, nothing in a range, or its default channel would go.
    """
    versions = _versions(package.bundles)
    chosen = _chosen(package.channels, wanted, versions)
    (blob,) = package.packages
    default = default_channel or blob.default_channel
    if default not in chosen:
        raise _no_default(blob.name, default, sorted(chosen), package.channels)
    pairs = [(channel, *_stays(channel, chosen[channel.name], versions)) for channel in _of(package, chosen)]
    left = _left(package, tuple(after for _, after, _ in pairs))
    return Part(
        left if default == blob.default_channel else replace(left, packages=(replace(blob, default_channel=default),)),
        tuple(_told(before, after) for before, after, _ in pairs),
        tuple(Kept(blob.name, one.name, name, why) for one, _, needed in pairs for name, why in needed.items()),
    )


def _of(package: Blobs, names: Collection[str]) -> Iterator[ChannelBlob]:
    return (channel for channel in package.channels if channel.name in names)


def _versions(bundles: Iterable[BundleBlob]) -> Versions:
    found = {bundle.name: strict_version(bundle_version(bundle)) for bundle in bundles}
    return dict(sorted(found.items(), key=lambda each: (each[1], each[0])))


def _chosen(channels: Sequence[ChannelBlob], wanted: Iterable[Wanted], versions: Versions) -> dict[str, set[str]]:
    """The names of the entries that are wanted, by those of the channels that have such."""
    chosen: defaultdict[str, set[str]] = defaultdict(set)
    errors: list[CatalogError] = []
    for one in wanted:
        by_name = {channel.name: channel for channel in channels}
        errors += [_unknown_channel(one.package, name, by_name) for name in one.channels if name not in by_name]
        named = [by_name[name] for name in one.channels or by_name if name in by_name]
        found = {channel.name: _in_range(channel, one.version_range, versions) for channel in named}
        for group in [[channel] for channel in named] if one.channels else [named]:
            if not any(found[channel.name] for channel in group):
                errors.append(_nothing_in_range(one, group, versions))
        for name, entries in found.items():
            chosen[name] |= entries
    if errors:
        raise combined(errors)
    return {name: entries for name, entries in chosen.items() if entries}


def _in_range(channel: ChannelBlob, version_range: str, versions: Versions) -> set[str]:
    names = {entry.name for entry in channel.entries}
    if not version_range:
        return names
    parsed = VersionRange.parse(version_range)
    return {name for name in names if versions[name] in parsed}


def _stays(channel: ChannelBlob, chosen: Collection[str], versions: Versions) -> tuple[ChannelBlob, dict[str, str]]:
    """The channel with the entries that stay, and the reasons for those that are not chosen."""
    if len(chosen) == len(channel.entries):
        return channel, {}
    by_name = {entry.name: entry for entry in channel.entries}
    needed = needed_entries([by_name[name] for name in versions if name in by_name], chosen)
    entries = tuple(entry for entry in channel.entries if entry.name in chosen or entry.name in needed)
    return replace(channel, entries=entries), needed


def _left(package: Blobs, channels: tuple[ChannelBlob, ...]) -> Blobs:
    """The package with these channels, the bundles in them, and what is said of the deprecation of both."""
    placed = {entry.name for channel in channels for entry in channel.entries}
    left = {channel.name for channel in channels}
    gone = {(one.package, CHANNEL, one.name) for one in package.channels if one.name not in left}
    gone |= {(one.package, BUNDLE, one.name) for one in package.bundles if one.name not in placed}
    bundles = tuple(bundle for bundle in package.bundles if bundle.name in placed)
    deprecations = without_references(package.deprecations, gone)
    return replace(package, channels=channels, bundles=bundles, deprecations=deprecations)


def _told(before: ChannelBlob, after: ChannelBlob) -> KeptChannel:
    heads = (*channel_heads(after.entries), *channel_heads(before.entries))
    return KeptChannel(before.package, before.name, len(after.entries), len(before.entries), *heads)


def _unknown_channel(package: str, name: str, known: Iterable[str]) -> CatalogError:
    told = f'package "{package}" has no channel "{name}"'
    return CatalogError(told, advice=instead("channels of the package", name, sorted(known)))


def _nothing_in_range(wanted: Wanted, channels: Sequence[ChannelBlob], versions: Versions) -> CatalogError:
    named = f'channel "{channels[0].name}" of ' if wanted.channels else ""
    names = {entry.name for channel in channels for entry in channel.entries}
    there = [str(version) for name, version in versions.items() if name in names]
    return CatalogError(
        f'{named}package "{wanted.package}" has no version in the range "{wanted.version_range}"',
        advice=f"The versions, the highest first, are: {listed(there[::-1])}.",
    )


def _no_default(package: str, name: str, left: Sequence[str], channels: Sequence[ChannelBlob]) -> CatalogError:
    if all(channel.name != name for channel in channels):
        return _unknown_channel(package, name, left)
    return CatalogError(
        f'"{name}", the default channel of package "{package}", is not among the channels that would be left',
        hint=Hint(
            "keep it, or select another default channel, such as {} (remaining channels: {})",
            Setting.DEFAULT_CHANNEL.with_value(f"{package}={left[0]}"),
            listed(left),
        ),
    )
