"""Endings of updates with OLM v1 below the newest version: why, and the smallest change of the catalog that helps."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.index.fbc.check.graph import STRANDED, check_graph
from opmkit.index.plan.ending import describe_edge
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
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob
    from opmkit.index.plan.extension import ExtensionPackage, InstalledKey

MAX_TRIALS = 4
"""Bundles that are tried as the one to skip a version, the highest first."""
MAX_SKIPPED = 3
"""Versions that a remedy skips besides the installed one."""


class ExtensionEndings(Struct, frozen=True, dict=True):
    """The endings of updates of extensions with the same channels, below the version that OLM v1 prefers.

    Attributes:
        package: What the extensions consider.
        channel: Name of the only channel that they select, or "" for all.
    """

    package: ExtensionPackage
    channel: str

    @cached_property
    def ranked(self) -> Sequence[BundleBlob]:
        """The bundles, the preferred one first."""
        return self.package.ranked()

    @cached_property
    def _highest(self) -> BundleBlob:
        return max(self.ranked, key=lambda bundle: bundle_version(bundle) or LOWEST)

    def reason(self, installed: InstalledKey) -> str:
        """Return why OLM v1 installs nothing after a bundle."""
        name, version = installed
        updates = {
            entry.name: describe_edge(entry, name)
            for channel in self.package.channels
            for entry in channel.entries
            if entry.name != name and succeeds(entry, installed)
        }
        if updates:
            bundle = next(bundle for bundle in self.ranked if bundle.name in updates)
            edge = updates[bundle.name]
            if bundle.name in self.package.deprecated:
                return f"{edge}, but is deprecated, so that OLM v1 prefers the installed version"
            lower = f"its version {version_text(bundle)} is lower"
            return f"{edge}, but {lower}, so that OLM v1 prefers the installed version"
        if version and (known := bundle_version(self._highest)) and version > known:
            where = f"channel {self.channel}" if self.channel else "all channels"
            return f"{name} is newer than {self._highest.name}, the highest version of {where}"
        return f"no entry of {self.channel or 'any channel'} replaces or skips {name}"

    def remedy(self, installed: InstalledKey) -> str:
        """Return the smallest change after which a bundle is updated to the preferred version, or "" if none is known.

        Each change is applied, validated and planned again, and must not lead to a lower version.
        """
        name, version = installed
        newer = [each for each in self.ranked if version and (key := bundle_version(each)) and key > version]
        channels = self.package.channels
        for bundle in newer[:MAX_TRIALS]:
            holders = [each for each in channels if any(entry.name == bundle.name for entry in each.entries)]
            for holder in holders:
                skipped = _skipped(holder, bundle.name, name)
                changed = _skip(holder, bundle.name, skipped)
                if check_graph(changed.entries) is None and _leads_on(self.package, holder, changed, installed):
                    where = f" in channel {holder.name}" if len(holders) > 1 else ""
                    return f"let {bundle.name} skip {' and '.join(skipped)}{where}"
        if not newer and all(each.name != name for each in self.ranked):
            return f"keep {name} in {f'channel {self.channel}' if self.channel else 'a channel'}"
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
