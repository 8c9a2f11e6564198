"""Update paths: where each version that a published catalog can have left installed gets with a new catalog.

Each path is that of a namespace with one Subscription, whose dependencies come from the same catalog.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.core.errors import LimitExceeded
from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import CatalogEntry, CatalogKey, list_candidates
from opmkit.index.plan.ending import ChannelEndings, Ending, Outcome, RemedyBudget, find_remedy
from opmkit.index.plan.explain import explain
from opmkit.index.plan.namespace import AmbiguousChannel, Namespace, ResolvableCatalog, Subscription
from opmkit.index.plan.requirement import InvalidRequirement
from opmkit.index.plan.successors import Hops, Routes, Successors
from opmkit.index.plan.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.plan.namespace import Blocked, Resolution
    from opmkit.index.plan.walk import State, Walk

_KEY = CatalogKey("catalog", "operators")
_NAMESPACE = "operators"
MAX_CONSIDERED = 10_000_000
"""Bundles that the resolutions of all paths consider; each takes some microseconds."""


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

    @property
    def followed(self) -> str:
        """Name of the channel, or what stands for all of them."""
        return self.channel or "(all)"

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

    def __init__(self, catalog: ResolvableCatalog, remedies: RemedyBudget | None = None) -> None:
        """Create a planner of updates to a catalog; remedies are tried as long as there is a budget."""
        self._catalog = catalog
        self._remedies = remedies or RemedyBudget()
        self._considered = 0
        self._endings: dict[tuple[str, str, str], Ending] = {}

    def paths(self, package: str, channel: str, installed: Sequence[CatalogEntry]) -> Iterator[UpdatePath]:
        """Yield the paths of bundles that follow a channel."""
        endings = ChannelEndings(self._catalog, package, channel)
        entries = endings.entries
        if not entries:
            ending = _gone(package, channel, self._catalog)
            yield from (_path(package, channel, each.name, (), ending) for each in installed)
            return
        try:
            (chain,) = endings.chains
        except AmbiguousChannel as error:
            ending = Ending(Outcome.UNRESOLVABLE, error.message, str(error.hint))
            yield from (_path(package, channel, each.name, (), ending) for each in installed)
            return
        if any(entry.needs_resolution for entry in (*chain, *installed)):
            known: dict[State, Resolution | Blocked] = {}
            yield from (self._resolve(each, channel, known) for each in installed)
            return
        following = _next_entries(chain, [*installed, *entries])
        routes = Routes({name: entry.name for name, entry in following.items() if name != entry.name})
        by_name = {entry.name: entry for entry in (*entries, *installed)}
        for each in installed:
            route = routes[each.name]
            hops = Hops(route, str, route.count)
            current = by_name[route.last]
            ending = _circle(route.last, route.repeated) if route.repeated else self.ending(endings, current)
            yield _path(package, channel, each.name, hops, ending)

    def _resolve(self, installed: CatalogEntry, channel: str, known: dict[State, Resolution | Blocked]) -> UpdatePath:
        subscription = Subscription("subscription", installed.package, channel, _KEY, installed_csv=installed.name)
        subscription = replace(subscription, catalog=self._catalog.key)
        present = installed.installed(_NAMESPACE, mandatory=False)
        namespace = Namespace(_NAMESPACE, (self._catalog,), (subscription,), (present,))
        before = len(known)
        try:
            walked = walk(namespace, known)
        except InvalidRequirement as error:
            ending = Ending(Outcome.UNRESOLVABLE, error.message, str(error.hint))
            return _path(installed.package, channel, installed.name, (), ending)
        self._count(installed.package, islice(known.values(), before, None))
        return self.follow(walked, subscription)

    def _count(self, package: str, resolutions: Iterable[Resolution | Blocked]) -> None:
        """Count the bundles that had to be considered: with long chains of dependencies, there would be no end."""
        self._considered += sum(resolution.considered for resolution in resolutions)
        if self._considered > MAX_CONSIDERED:
            raise LimitExceeded(
                f"package {package}: more than {MAX_CONSIDERED:,} bundles to consider for dependencies",
                hint="plan fewer packages at once",
            )

    def follow(self, walked: Walk, subscription: Subscription) -> UpdatePath:
        """Return the path of a Subscription of a namespace to this catalog; raises AmbiguousChannel."""
        steps = [step.candidate for resolution in walked.resolutions for step in resolution.steps]
        package, channel, start = subscription.package, subscription.channel, subscription.installed_csv
        hops = tuple(step.name for step in steps if (step.package, step.catalog) == (package, subscription.catalog))
        final = hops[-1] if hops else start
        current = walked.final.find_installed(final)
        if walked.is_circular and final in (start, *hops[:-1]):
            ending, hops = _circle((start, *hops)[-2], final), hops[:-1]
        elif walked.blocked or current is None:
            ending = _blocked(walked.blocked)
        else:
            ending = self.ending(ChannelEndings(self._catalog, package, channel), current)
        return _path(package, channel, start or final, hops if start else hops[1:], ending)

    def ending(self, endings: ChannelEndings, current: CatalogEntry) -> Ending:
        """Return the ending of a bundle that OLM does not update, with a remedy; raises AmbiguousChannel."""
        key = (endings.package, endings.channel, current.name)
        if key not in self._endings:
            found = endings.ending(current)
            if found.outcome is Outcome.STUCK and self._remedies.take():
                found = replace(found, remedy=find_remedy(endings, current, _last_at_head))
            self._endings[key] = found
        return self._endings[key]


def follow_subscriptions(walked: Walk) -> Iterator[UpdatePath]:
    """Yield the paths of all Subscriptions of a namespace, also to dependencies; raises AmbiguousChannel."""
    before = {subscription.name: subscription for subscription in walked.start.subscriptions}
    planners = {catalog.key: UpdatePlanner(catalog) for catalog in walked.final.catalogs}
    for subscription in walked.final.subscriptions:
        start = before.get(subscription.name) or replace(subscription, installed_csv="")
        yield planners[subscription.catalog].follow(walked, start)


def _last_at_head(catalog: ResolvableCatalog, channel: str, installed: CatalogEntry) -> CatalogEntry | None:
    """Return the last bundle of the updates of a bundle in a channel, None unless they end at its head."""
    try:
        (path,) = UpdatePlanner(catalog, RemedyBudget(0)).paths(installed.package, channel, [installed])
    except CatalogError:
        return None
    if path.outcome is not Outcome.HEAD:
        return None
    return next((each for each in catalog.of_package(installed.package) if each.name == path.final), installed)


def _path(package: str, channel: str, installed: str, hops: Sequence[str], ending: Ending) -> UpdatePath:
    return UpdatePath(package, channel, installed, hops, ending.outcome, ending.reason, ending.remedy)


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


def _circle(last: str, repeated: str) -> Ending:
    return Ending(Outcome.CIRCULAR, f"updates lead from {last} back to {repeated}", "correct skipRange")


def _gone(package: str, channel: str, catalog: ResolvableCatalog) -> Ending:
    """Return the ending for a channel without entries."""
    channels = sorted({entry.channel for entry in catalog.of_package(package)})
    if not channels:
        return Ending(Outcome.GONE, f"the catalog has no package {package}", "keep the package")
    reason = f"package {package} has no channel {channel}, only {', '.join(channels)}"
    return Ending(Outcome.GONE, reason, f"keep channel {channel}: a Subscription to it blocks its namespace")


def _blocked(blocked: Blocked | None) -> Ending:
    """Return the ending in a blocked namespace: its first conflict."""
    for conflict in blocked.conflicts if blocked else ():
        explanation = explain(conflict)
        return Ending(Outcome.UNRESOLVABLE, explanation.causes[0], next(iter(explanation.remedies), ""))
    return Ending(Outcome.UNRESOLVABLE, "OLM installs nothing")
