"""Update paths: where each version that a published catalog can have left installed gets with a new catalog.

Each path is that of a namespace with one Subscription, whose dependencies come from the same catalog.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import CatalogEntry, CatalogKey, list_candidates
from opmkit.index.plan.namespace import (
    AmbiguousChannel,
    Blocked,
    Namespace,
    RequirementReason,
    ResolvableCatalog,
    Subscription,
    order_channel,
)
from opmkit.index.plan.requirement import InvalidRequirement
from opmkit.index.plan.successors import Hops, Routes, Successors
from opmkit.index.plan.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.plan.namespace import Resolution
    from opmkit.index.plan.successors import Route
    from opmkit.index.plan.walk import State

_KEY = CatalogKey("catalog", "operators")
_NAMESPACE = "operators"


class Outcome(StrEnum):
    """Where an update path ends."""

    HEAD = "head"
    """At the head of the channel."""
    STUCK = "stuck"
    """Below the head: no entry replaces or skips the version."""
    GONE = "gone"
    """The channel or the package does not exist any more, which blocks all of the namespace."""
    UNRESOLVABLE = "unresolvable"
    """OLM cannot satisfy the requirements of the next version, or cannot read the channel."""
    CIRCULAR = "circular"
    """Updates lead back to an earlier version."""


@dataclass(frozen=True, slots=True)
class UpdatePath:
    """The updates of an installed version.

    Attributes:
        package: Name of the package.
        channel: Name of the channel that a Subscription or ClusterExtension follows; "" for an extension that follows
            all of them.
        installed: Name of the installed bundle.
        hops: Names of the bundles that OLM installs in turn.
        outcome: Where the path ends.
        reason: Why it does not end at the head, or "".
        remedy: The smallest change of the catalog after which it does, or "" if none is known.
        olm: The OLM that follows the path.
    """

    package: str
    channel: str
    installed: str
    hops: Sequence[str]
    outcome: Outcome
    reason: str = ""
    remedy: str = ""
    olm: OlmVersion = OlmVersion.V0

    @property
    def final(self) -> str:
        """Name of the last bundle."""
        return self.hops[-1] if self.hops else self.installed

    def tokens(self) -> Iterator[object]:
        """Iterate over values for the hops: all that follows on two paths is equal if these are equal and not None."""
        return self.hops.tokens() if isinstance(self.hops, Hops) else repeat(None)

    def to_dict(self) -> dict[str, Any]:
        """Return the path in JSON types."""
        return {
            "package": self.package,
            "channel": self.channel,
            "installed": self.installed,
            "hops": list(self.hops),
            "final": self.final,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "remedy": self.remedy,
            "olm": self.olm.value,
        }


def plan_updates(catalog: Catalog, published: Catalog, packages: Iterable[str] = ()) -> Iterator[UpdatePath]:
    """Yield the path of each bundle of each channel of a published catalog, by package, channel and catalog order.

    Args:
        catalog: The new catalog.
        published: The catalog that clusters have installed bundles from.
        packages: Names of packages, by default all of the published catalog.
    """
    names = set(packages)
    planner = UpdatePlanner(ResolvableCatalog(_KEY, list_candidates(catalog, _KEY)))
    before = ResolvableCatalog(_KEY, list_candidates(published, _KEY))
    for package, channel, entries in _channels(before.entries):
        if not names or package in names:
            yield from planner.paths(package, channel, entries)


def _channels(entries: Iterable[CatalogEntry]) -> Iterator[tuple[str, str, Sequence[CatalogEntry]]]:
    channels: defaultdict[tuple[str, str], list[CatalogEntry]] = defaultdict(list)
    for entry in entries:
        channels[entry.package, entry.channel].append(entry)
    for (package, channel), members in channels.items():
        yield package, channel, members


class UpdatePlanner:
    """Plans the updates to one catalog."""

    def __init__(self, catalog: ResolvableCatalog) -> None:
        """Create a planner of updates to a catalog."""
        self._catalog = catalog
        self._known: dict[State, Resolution | Blocked] = {}

    @cached_property
    def _channels(self) -> Mapping[tuple[str, str], Sequence[CatalogEntry]]:
        return {(package, channel): entries for package, channel, entries in _channels(self._catalog.entries)}

    def paths(self, package: str, channel: str, installed: Sequence[CatalogEntry]) -> Iterator[UpdatePath]:
        """Yield the paths of bundles that follow a channel."""
        entries = self._channels.get((package, channel), ())
        if not entries:
            outcome, reason, remedy = _missing(package, channel, self._catalog)
            yield from (UpdatePath(package, channel, each.name, (), outcome, reason, remedy) for each in installed)
            return
        try:
            chain = order_channel(entries)
        except AmbiguousChannel as error:
            for each in installed:
                yield UpdatePath(package, channel, each.name, (), Outcome.UNRESOLVABLE, error.message, str(error.hint))
            return
        if any(_needs_resolution(entry) for entry in (*chain, *installed)):
            yield from (self._resolve(each, channel, chain) for each in installed)
            return
        following = _next_entries(chain, [*installed, *entries])
        routes = Routes({name: entry.name for name, entry in following.items() if name != entry.name})
        by_name = {entry.name: entry for entry in (*installed, *chain)}
        newer = _NewerEntries(chain)
        for each in installed:
            yield _follow(each, channel, chain[0].name, routes[each.name], by_name, following, newer)

    def _resolve(self, installed: CatalogEntry, channel: str, chain: Sequence[CatalogEntry]) -> UpdatePath:
        subscription = Subscription("subscription", installed.package, channel, _KEY, installed_csv=installed.name)
        present = installed.installed(_NAMESPACE, mandatory=False)
        namespace = Namespace(_NAMESPACE, (self._catalog,), (subscription,), (present,))
        package, name = installed.package, installed.name
        try:
            walked = walk(namespace, self._known)
        except InvalidRequirement as error:
            return UpdatePath(package, channel, name, (), Outcome.UNRESOLVABLE, error.message)
        steps = [step.candidate for resolution in walked.resolutions for step in resolution.steps]
        hops = tuple(step.name for step in steps if step.package == package and step.name != name)
        last = steps[-1] if hops else installed
        final = hops[-1] if hops else name
        if walked.blocked:
            return UpdatePath(package, channel, name, hops, Outcome.UNRESOLVABLE, _explain(walked.blocked))
        if final == chain[0].name:
            return UpdatePath(package, channel, name, hops, Outcome.HEAD)
        if walked.is_circular:
            reason = f"updates lead from {final} back to an earlier version"
            return UpdatePath(package, channel, name, hops, Outcome.CIRCULAR, reason)
        current = next((each for each in chain if each.name == final), last)
        options = [each for each in chain if each.updates_from(current.name, current.bundle.version)]
        if options:
            reason = "; ".join(f"{each.name} requires {_unmet(each, self._catalog)}" for each in options[:1])
            return UpdatePath(package, channel, name, hops, Outcome.UNRESOLVABLE, reason)
        return _stuck(installed, channel, hops, current, _NewerEntries(chain))


def _needs_resolution(entry: CatalogEntry) -> bool:
    """Return whether more than the channel decides about updates to a bundle."""
    try:
        return bool(entry.bundle.requirements) or entry.bundle.is_deprecated
    except InvalidRequirement:
        return True


def _next_entries(chain: Sequence[CatalogEntry], bundles: Iterable[CatalogEntry]) -> dict[str, CatalogEntry]:
    """Return the entry of a channel that each bundle is updated to, by name: the one nearest to the head."""
    versions: dict[str, VersionKey | None] = {bundle.name: bundle.bundle.version for bundle in bundles}
    successors: Successors[str, CatalogEntry] = Successors(
        (version, name) for name, version in versions.items() if version is not None
    )
    for entry in chain:
        successors.offer((entry.replaces, *entry.skips), entry)
        if entry.skip_range:
            successors.offer_range(entry.skip_range, entry)
    return successors.found


def _follow(
    installed: CatalogEntry,
    channel: str,
    head: str,
    route: Route[str],
    by_name: Mapping[str, CatalogEntry],
    following: Mapping[str, CatalogEntry],
    newer: _NewerEntries,
) -> UpdatePath:
    hops = Hops(route, str, route.count)
    if route.repeated is not None:
        reason = f"updates lead from {route.last} back to {route.repeated}"
        return UpdatePath(
            installed.package, channel, installed.name, hops, Outcome.CIRCULAR, reason, "correct skipRange"
        )
    if route.last == head:
        return UpdatePath(installed.package, channel, installed.name, hops, Outcome.HEAD)
    current = by_name[route.last] if hops or route.last in following else installed
    return _stuck(installed, channel, hops, current, newer)


def _stuck(
    installed: CatalogEntry, channel: str, hops: Sequence[str], current: CatalogEntry, newer: _NewerEntries
) -> UpdatePath:
    """Return the path of a version that no entry of a channel replaces or skips."""
    successor = newer.lowest(current.bundle.version)
    replaced = f" ({successor.name} replaces {successor.replaces})" if successor.replaces else ""
    reason = f"no entry of {channel} replaces or skips {current.name}{replaced}"
    remedy = f"let {successor.name} skip {current.name}" if successor.replaces else f"let {successor.name} replace it"
    return UpdatePath(installed.package, channel, installed.name, hops, Outcome.STUCK, reason, remedy)


class _NewerEntries:
    """The entries of a channel that are newer than those below them, which are nearer to the end of its chain."""

    def __init__(self, chain: Sequence[CatalogEntry]) -> None:
        self._head = chain[0]
        self._versions: list[VersionKey] = []
        self._entries: list[CatalogEntry] = []
        for entry in reversed(chain):
            version = entry.bundle.version
            if version is not None and (not self._versions or version > self._versions[-1]):
                self._versions.append(version)
                self._entries.append(entry)

    def lowest(self, version: VersionKey | None) -> CatalogEntry:
        """Return the lowest entry that is newer than a version; without one, the head."""
        position = len(self._entries) if version is None else bisect_right(self._versions, version)
        return self._entries[position] if position < len(self._entries) else self._head


def _missing(package: str, channel: str, catalog: ResolvableCatalog) -> tuple[Outcome, str, str]:
    """Return the outcome, the reason and the remedy for a channel without entries."""
    if not catalog.of_package(package):
        return Outcome.GONE, f"the catalog has no package {package}", "keep the package"
    channels = sorted({entry.channel for entry in catalog.of_package(package)})
    reason = f"package {package} has no channel {channel}, only {', '.join(channels)}"
    return Outcome.GONE, reason, f"keep channel {channel}: a Subscription to it blocks its namespace"


def _explain(blocked: Blocked) -> str:
    """Return the requirement that blocks a namespace in a few words."""
    for conflict in blocked.conflicts:
        for reason in conflict.reasons:
            if isinstance(reason, RequirementReason):
                return f"{reason.bundle.name} requires {reason.requirement}, which nothing in the catalog can satisfy"
    return "its requirements exclude each other"


def _unmet(entry: CatalogEntry, catalog: ResolvableCatalog) -> str:
    """Return the first requirement of a bundle that no bundle of the catalog meets, or that another one excludes."""
    if entry.bundle.is_deprecated:
        return "nothing, but is deprecated"
    for requirement in entry.bundle.requirements:
        try:
            if not catalog.providers(requirement):
                return f"{requirement}, which the catalog does not have"
        except CatalogError as error:
            return f"{requirement}: {error.message}"
    return " and ".join(map(str, entry.bundle.requirements))
