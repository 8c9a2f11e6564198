"""Endings of updates with OLM v1 below the newest version: why, and the smallest change of the catalog that helps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from opmkit.index.fbc.check.graph import STRANDED, check_graph
from opmkit.index.plan.extension import (
    LOWEST,
    bundle_version,
    installed_key,
    refused_dependency,
    succeeds,
    version_text,
)
from opmkit.index.plan.successors import Routes

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import ChannelBlob
    from opmkit.index.plan.extension import ExtensionPackage, InstalledKey

MAX_TRIALS = 4
"""Bundles that are tried as the one to skip a version, the highest first."""
MAX_SKIPPED = 3
"""Versions that a remedy skips besides the installed one."""


def stuck_reason(package: ExtensionPackage, installed: InstalledKey, channel: str) -> str:
    """Return why OLM v1 installs nothing after a bundle.

    Args:
        package: What the extension considers.
        installed: The bundle.
        channel: Name of the only channel that the extension selects, or "" for all.
    """
    name, version = installed
    updates = dict.fromkeys(
        entry.name
        for each in package.channels
        for entry in each.entries
        if entry.name != name and succeeds(entry, installed)
    )
    ignored = [bundle for bundle in package.ranked() if bundle.name in updates]
    where = f"channel {channel}" if channel else "all channels"
    if not ignored:
        highest = max(package.bundles, key=lambda bundle: bundle_version(bundle) or LOWEST)
        if version and (known := bundle_version(highest)) and version > known:
            return f"{name} is newer than {highest.name}, the highest version of {where}"
        return f"no entry of {channel or 'any channel'} replaces or skips {name}"
    bundle = ignored[0]
    edge = f"{bundle.name} replaces or skips {name}"
    if bundle.name in package.deprecated:
        return f"{edge}, but is deprecated, so that OLM v1 prefers the installed version"
    return f"{edge}, but its version {version_text(bundle)} is lower, so that OLM v1 prefers the installed version"


def find_remedy(package: ExtensionPackage, installed: InstalledKey, channel: str) -> str:
    """Return the smallest change after which a bundle is updated to the preferred version, or "" if none is known.

    Each change is applied, validated and planned again, and must not lead to a lower version.

    Args:
        package: What the extension considers.
        installed: The bundle.
        channel: Name of the only channel that the extension selects, or "" for all.
    """
    name, version = installed
    newer = [each for each in package.ranked() if version and (key := bundle_version(each)) and key > version]
    for bundle in newer[:MAX_TRIALS]:
        holders = [each for each in package.channels if any(entry.name == bundle.name for entry in each.entries)]
        for holder in holders:
            skipped = _skipped(holder, bundle.name, name)
            changed = _skip(holder, bundle.name, skipped)
            if check_graph(changed.entries) is None and _leads_on(package, holder, changed, installed):
                where = f" in channel {holder.name}" if len(holders) > 1 else ""
                return f"let {bundle.name} skip {' and '.join(skipped)}{where}"
    if not newer and all(each.name != name for each in package.bundles):
        return f"keep {name} in channel {channel}" if channel else f"keep {name} in a channel"
    return ""


def _skipped(channel: ChannelBlob, bundle: str, installed: str) -> tuple[str, ...]:
    """Return what a bundle must skip besides an installed one: what the channel would not reach any more."""
    problem = check_graph(_skip(channel, bundle, (installed,)).entries)
    stranded = problem.names if problem and problem.label == STRANDED else ()
    return (installed, *stranded) if len(stranded) <= MAX_SKIPPED else (installed,)


def _skip(channel: ChannelBlob, bundle: str, names: tuple[str, ...]) -> ChannelBlob:
    entries = tuple(
        structs.replace(each, skips=(*each.skips, *names)) if each.name == bundle else each for each in channel.entries
    )
    return replace(channel, entries=entries)


def _leads_on(package: ExtensionPackage, old: ChannelBlob, new: ChannelBlob, installed: InstalledKey) -> bool:
    """Return whether a bundle is updated to the preferred version with a changed channel."""
    channels = tuple(new if each is old else each for each in package.channels)
    changed = structs.replace(package, channels=channels)
    ranked = changed.ranked()
    following = changed.successors(ranked, {installed, *map(installed_key, ranked)})
    routes = Routes(
        {
            key: installed_key(bundle)
            for key, bundle in following.items()
            if bundle.name != key[0] and not refused_dependency(bundle)
        }
    )
    route = routes[installed]
    return route.repeated is None and route.last[0] == ranked[0].name
