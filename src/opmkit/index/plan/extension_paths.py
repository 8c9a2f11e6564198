"""Update paths of ClusterExtensions: where OLM v1 takes each version that a catalog can have left installed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.plan.ending import Outcome, RemedyBudget
from opmkit.index.plan.extension import (
    BestBundles,
    ExtensionPackage,
    InstalledBundle,
    ResolvedBundle,
    UnresolvedExtension,
    installed_key,
    refused_dependency,
    resolve_extension,
    version_text,
)
from opmkit.index.plan.extension_ending import ExtensionEndings
from opmkit.index.plan.paths import UpdatePath
from opmkit.index.plan.result import PlanProblem, PlanReport
from opmkit.index.plan.successors import Hops, Routes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.plan.extension import ExtensionCatalog, ExtensionRequest, InstalledKey
    from opmkit.index.plan.successors import Route


def plan_extension_updates(catalog: Blobs, published: Blobs, packages: Iterable[str] = ()) -> Iterator[UpdatePath]:
    """Yield the path of each published bundle: of an extension without channels, and of one for each of its channels.

    Args:
        catalog: The new catalog.
        published: The catalog that clusters have installed bundles from.
        packages: Names of packages, by default all of the published catalog.
    """
    before, after = _by_package(published), _by_package(catalog)
    remedies = RemedyBudget()
    for package in sorted(set(packages) or before.keys()):
        old, new = before.get(package, Blobs()), after.get(package, Blobs())
        for channel in ("", *sorted({each.name for each in old.channels})):
            selected = (channel,) if channel else ()
            installed = ExtensionPackage.of(old, package, selected).bundles
            yield from _Updates(package, channel, ExtensionPackage.of(new, package, selected), new, remedies).paths(
                installed
            )


def _by_package(blobs: Blobs) -> Mapping[str, Blobs]:
    groups = defaultdict(list)
    for blob in blobs:
        groups[blob.package].append(blob)
    return {package: Blobs.from_blobs(group) for package, group in groups.items()}


class _Updates(Struct, frozen=True, dict=True):
    """The updates of extensions with the same channels.

    Attributes:
        package: Name of the package.
        channel: The only channel that is selected, or "" for all.
        selected: What they consider.
        catalog: All of the package in the new catalog.
        remedies: The stuck versions for which remedies are tried.
    """

    package: str
    channel: str
    selected: ExtensionPackage
    catalog: Blobs
    remedies: RemedyBudget
    _known: dict[InstalledKey, tuple[str, str]] = {}

    @cached_property
    def _endings(self) -> ExtensionEndings:
        return ExtensionEndings(self.selected, self.channel)

    def paths(self, installed: Sequence[BundleBlob]) -> Iterator[UpdatePath]:
        """Yield the paths of installed bundles."""
        ranked = self.selected.ranked()
        present = list(map(installed_key, installed))
        following = self.selected.successors(ranked, {*present, *map(installed_key, ranked)})
        routes = Routes(
            {
                key: installed_key(bundle)
                for key, bundle in following.items()
                if bundle.name != key[0] and not refused_dependency(bundle)
            }
        )
        for each in present:
            yield self._path(routes[each], ranked[0].name if ranked else "", following)

    def _path(self, route: Route[InstalledKey], head: str, following: Mapping[InstalledKey, BundleBlob]) -> UpdatePath:
        is_closed = route.repeated == route.start  # a circle includes what was installed
        hops = Hops(route, itemgetter(0), route.count + is_closed)
        key = route.start if is_closed else route.last
        name, version = key
        found = following.get(key)
        if found is not None and (dependency := refused_dependency(found)):
            reason = f"{found.name} has a dependency ({dependency}), with which OLM v1 installs no bundle"
            return self._ending(route, hops, Outcome.UNRESOLVABLE, reason, "publish it without dependencies")
        if not head:
            return self._ending(route, hops, Outcome.GONE, *self._missing())
        if version is None:
            reason = f"{name} has no valid version, so that OLM v1 cannot update it"
            return self._ending(route, hops, Outcome.UNRESOLVABLE, reason)
        if name == head:
            return self._ending(route, hops, Outcome.HEAD)
        return self._ending(route, hops, Outcome.STUCK, *self._stuck(key))

    def _stuck(self, installed: InstalledKey) -> tuple[str, str]:
        """Return why OLM v1 installs nothing after a bundle, and what to change."""
        if installed not in self._known:
            remedy = self._endings.remedy(installed) if self.remedies.take() else ""
            self._known[installed] = self._endings.reason(installed), remedy
        return self._known[installed]

    def _ending(
        self, route: Route[InstalledKey], hops: Sequence[str], outcome: Outcome, reason: str = "", remedy: str = ""
    ) -> UpdatePath:
        name, _ = route.start
        return UpdatePath(self.package, self.channel, name, hops, outcome, reason, remedy, OlmVersion.V1)

    def _missing(self) -> tuple[str, str]:
        """Return the reason and the remedy if there is nothing to install."""
        channels = ", ".join(sorted({channel.name for channel in self.catalog.channels}))
        if not channels:
            return f"the catalog has no package {self.package}", "keep the package"
        return (
            f"package {self.package} has no channel {self.channel}, only {channels}",
            f"keep channel {self.channel}: a ClusterExtension with it fails",
        )


@dataclass(frozen=True, slots=True)
class ExtensionPlan(PlanReport):
    """What OLM v1 installs for a ClusterExtension.

    Attributes:
        request: What the extension asks for.
        steps: The bundles that are installed in turn.
        problem: Why nothing is installed at the end, or why what is installed is not the preferred version, or "".
        remedy: What to change then, or "".
        kind: Kind of the problem: ``blocked`` if OLM v1 reports an error, ``stuck`` or ``circular``.
    """

    request: ExtensionRequest
    steps: tuple[ResolvedBundle, ...]
    problem: str = ""
    remedy: str = ""
    kind: str = "blocked"

    @property
    def is_blocked(self) -> bool:
        """Whether OLM v1 reports an error."""
        return bool(self.problem) and self.kind == "blocked"

    @property
    def targets(self) -> tuple[str, ...]:
        """The ClusterExtension."""
        return (f"ClusterExtension of {self.request.package}",)

    def problems(self) -> Iterator[PlanProblem]:
        """Yield why nothing is installed at the end, or not the preferred version."""
        if self.problem:
            yield PlanProblem(self.targets[0], self.kind, self.problem, self.remedy)

    def to_dict(self) -> dict[str, object]:
        """Return the plan in JSON types."""
        return {
            "package": self.request.package,
            "installed": self.request.installed.name if self.request.installed else "",
            "steps": [
                {
                    "name": step.bundle.name,
                    "version": version_text(step.bundle),
                    "catalog": step.catalog,
                    "isDeprecated": step.is_deprecated,
                }
                for step in self.steps
            ],
            "problem": self.problem,
            "kind": self.kind if self.problem else "",
            "remedy": self.remedy,
        }


def plan_extension(request: ExtensionRequest, catalogs: Sequence[ExtensionCatalog]) -> ExtensionPlan:
    """Plan what OLM v1 installs for an extension, until nothing changes.

    Args:
        request: What the extension asks for.
        catalogs: The catalogs, in the order of their names.

    Raises:
        CatalogError: The version range, or the version of the installed bundle, is invalid.
    """
    steps: list[ResolvedBundle] = []
    names: set[str] = set()
    current, best = request, BestBundles(request, catalogs)
    while True:
        try:
            found = resolve_extension(current, catalogs, best)
        except UnresolvedExtension as error:
            return ExtensionPlan(request, tuple(steps), error.message, str(error.hint))
        if current.installed and found.bundle.name == current.installed.name:
            reason, remedy = _why_stuck(current, found, catalogs)
            return ExtensionPlan(request, tuple(steps), reason, remedy, Outcome.STUCK.value)
        if found.bundle.name in names:
            return ExtensionPlan(
                request,
                tuple(steps),
                f"updates lead back to {found.bundle.name}",
                "give the versions an order",
                Outcome.CIRCULAR.value,
            )
        steps.append(found)
        names.add(found.bundle.name)
        current = replace(current, installed=InstalledBundle(found.bundle.name, version_text(found.bundle)))


def _why_stuck(
    request: ExtensionRequest, found: ResolvedBundle, catalogs: Sequence[ExtensionCatalog]
) -> tuple[str, str]:
    """Return why an extension stays below the version that its range and channels allow, and what to change."""
    blobs = next(catalog.blobs for catalog in catalogs if catalog.name == found.catalog)
    package = ExtensionPackage.of(blobs, request.package, request.channels)
    allowed = structs.replace(package, bundles=tuple(package.matching(replace(request, installed=None))))
    endings = ExtensionEndings(allowed, " or ".join(request.channels))
    key = installed_key(found.bundle)
    if package.rank(endings.ranked[0]) <= package.rank(found.bundle):
        return "", ""
    return endings.reason(key), endings.remedy(key)
