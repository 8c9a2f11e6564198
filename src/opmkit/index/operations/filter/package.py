"""Filter one package of a file-based catalog."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, Blobs
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.operations.deprecate import remove_references
from opmkit.index.operations.filter.result import RetainedBundle, RetainedChannel
from opmkit.index.operations.filter.subgraph import needed_entries
from opmkit.index.suggestions import join_names, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from semver import Version

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob
    from opmkit.index.operations.filter.package_filter import PackageFilter

Versions: TypeAlias = "Mapping[str, Version]"
"""The versions of bundles by name, in ascending order."""


@dataclass(frozen=True, slots=True)
class FilteredPackage:
    """The remaining blobs of a package, its channels, and the bundles retained for a valid graph."""

    blobs: Blobs
    channels: tuple[RetainedChannel, ...]
    retained: tuple[RetainedBundle, ...]


def filter_package(package: Blobs, filters: Iterable[PackageFilter], default_channel: str = "") -> FilteredPackage:
    """Filter a valid package; ``default_channel`` is its new default channel, "" for the current one.

    Raises:
        CatalogError: a channel does not exist, a range matches no version, or the default channel would be removed.
    """
    versions = _versions(package.bundles)
    selected = _select(package.channels, filters, versions)
    (blob,) = package.packages
    default = default_channel or blob.default_channel
    if default not in selected:
        raise _default_removed(blob.name, default, sorted(selected), package.channels)
    channels: list[ChannelBlob] = []
    retained_channels: list[RetainedChannel] = []
    retained: list[RetainedBundle] = []
    for channel in package.channels:
        if channel.name in selected:
            filtered, needed = _filter_channel(channel, selected[channel.name], versions)
            channels.append(filtered)
            retained_channels.append(_compare(channel, filtered))
            retained += [RetainedBundle(blob.name, channel.name, name, reason) for name, reason in needed.items()]
    blobs = _with_channels(package, tuple(channels))
    if default != blob.default_channel:
        blobs = replace(blobs, packages=(replace(blob, default_channel=default),))
    return FilteredPackage(blobs, tuple(retained_channels), tuple(retained))


def _versions(bundles: Iterable[BundleBlob]) -> Versions:
    versions = {bundle.name: strict_version(bundle_version(bundle)) for bundle in bundles}
    return dict(sorted(versions.items(), key=lambda item: (item[1], item[0])))


def _select(
    channels: Sequence[ChannelBlob], filters: Iterable[PackageFilter], versions: Versions
) -> dict[str, set[str]]:
    """Return the names of the matching entries of each channel that has any."""
    selected: defaultdict[str, set[str]] = defaultdict(set)
    errors: list[CatalogError] = []
    by_name = {channel.name: channel for channel in channels}
    for wanted in filters:
        errors += [_unknown_channel(wanted.package, name, by_name) for name in wanted.channels if name not in by_name]
        named = [by_name[name] for name in wanted.channels or by_name if name in by_name]
        matches = {channel.name: _in_range(channel, wanted.version_range, versions) for channel in named}
        for group in [[channel] for channel in named] if wanted.channels else [named]:
            if not any(matches[channel.name] for channel in group):
                errors.append(_nothing_in_range(wanted, group, versions))
        for name, entries in matches.items():
            selected[name] |= entries
    if errors:
        raise combine_errors(errors)
    return {name: entries for name, entries in selected.items() if entries}


def _in_range(channel: ChannelBlob, version_range: str, versions: Versions) -> set[str]:
    names = {entry.name for entry in channel.entries}
    if not version_range:
        return names
    parsed = VersionRange.parse(version_range)
    return {name for name in names if versions[name] in parsed}


def _filter_channel(
    channel: ChannelBlob, selected: Collection[str], versions: Versions
) -> tuple[ChannelBlob, dict[str, str]]:
    """Return the channel with the selected and the needed entries, and the reason for each needed one."""
    if len(selected) == len(channel.entries):
        return channel, {}
    by_name = {entry.name: entry for entry in channel.entries}
    needed = needed_entries([by_name[name] for name in versions if name in by_name], selected)
    entries = tuple(entry for entry in channel.entries if entry.name in selected or entry.name in needed)
    return replace(channel, entries=entries), needed


def _with_channels(package: Blobs, channels: tuple[ChannelBlob, ...]) -> Blobs:
    """Return the package with these channels, the bundles in them, and the deprecations of both."""
    placed = {entry.name for channel in channels for entry in channel.entries}
    names = {channel.name for channel in channels}
    removed = {(channel.package, CHANNEL, channel.name) for channel in package.channels if channel.name not in names}
    removed |= {(bundle.package, BUNDLE, bundle.name) for bundle in package.bundles if bundle.name not in placed}
    bundles = tuple(bundle for bundle in package.bundles if bundle.name in placed)
    deprecations = remove_references(package.deprecations, removed)
    return replace(package, channels=channels, bundles=bundles, deprecations=deprecations)


def _compare(before: ChannelBlob, after: ChannelBlob) -> RetainedChannel:
    heads = (*channel_heads(after.entries), *channel_heads(before.entries))
    return RetainedChannel(before.package, before.name, len(after.entries), len(before.entries), *heads)


def _unknown_channel(package: str, name: str, known: Iterable[str]) -> CatalogError:
    return CatalogError(
        f'package "{package}": channel "{name}" not found', hint=suggest_names("channels", name, sorted(known))
    )


def _nothing_in_range(wanted: PackageFilter, channels: Sequence[ChannelBlob], versions: Versions) -> CatalogError:
    named = f'channel "{channels[0].name}" of ' if wanted.channels else ""
    names = {entry.name for channel in channels for entry in channel.entries}
    available = [str(version) for name, version in versions.items() if name in names]
    return CatalogError(
        f'{named}package "{wanted.package}": no version in the range "{wanted.version_range}"',
        hint=f"choose a range that includes one of the versions: {join_names(available[::-1])}",
    )


def _default_removed(
    package: str, name: str, remaining: Sequence[str], channels: Sequence[ChannelBlob]
) -> CatalogError:
    if all(channel.name != name for channel in channels):
        return _unknown_channel(package, name, remaining)
    return CatalogError(
        f'package "{package}": its default channel "{name}" would be removed',
        hint=Hint(
            "keep it, or select another default channel, such as {} (remaining channels: {})",
            IndexSetting.DEFAULT_CHANNEL.with_value(f"{package}={remaining[0]}"),
            join_names(remaining),
        ),
    )
