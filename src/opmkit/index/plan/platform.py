"""Updates through versions of OpenShift: what installed operators need before and after each update of a cluster.

A cluster takes its catalogs from its own version. It refuses to be updated while an operator is installed whose
property ``olm.maxOpenShiftVersion`` names its present version, or is invalid. OLM 0.42 and later takes 4.23 and 5.0
for the same version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from opmkit.bundle.validation.openshift import (
    MAX_VERSION,
    VERSIONS,
    OpenShiftRange,
    OpenShiftVersion,
    read_max_version,
)
from opmkit.core.json_types import JsonResult
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.lifecycle import read_lifecycles
from opmkit.index.plan.candidate import CatalogEntry, CatalogKey, list_candidates
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.namespace import ResolvableCatalog
from opmkit.index.plan.paths import UpdatePlanner
from opmkit.index.plan.result import PlanProblem, PlanReport
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from opmkit.index.fbc.blobs import OtherBlob
    from opmkit.index.fbc.model import Catalog

ReadLabel: TypeAlias = Callable[[str], str]
_KEY = CatalogKey("catalog", "operators")


class PlatformCatalog(Struct, frozen=True):
    """A version of OpenShift with its catalog.

    Attributes:
        version: The version.
        catalog: The catalog.
        others: The documents of the catalog with other schemas, such as lifecycles.
    """

    version: OpenShiftVersion
    catalog: Catalog
    others: tuple[OtherBlob, ...] = ()


@dataclass(frozen=True, slots=True)
class PlatformStep(JsonResult):
    """An operator on one version of OpenShift.

    Attributes:
        platform: The version, such as ``4.18``.
        package: Name of the package.
        channel: Name of the channel that the Subscription follows.
        installed: Name of the bundle that the operator has when the cluster gets this version.
        hops: Names of the bundles that OLM installs then, in turn.
        needed: Name of the first of these that the next version of OpenShift accepts, or "" if no update is needed
            before.
        support_ends: Last day of the lifecycle of the last bundle, None if the catalog does not say it.
        problem: What keeps the cluster or the operator from going on, or "".
        kind: Kind of the problem, see `PlanProblem`, or "".
        remedy: What to change then, or "".
    """

    platform: str
    package: str
    channel: str
    installed: str
    hops: tuple[str, ...] = ()
    needed: str = ""
    support_ends: date | None = None
    problem: str = ""
    kind: str = ""
    remedy: str = ""

    @property
    def final(self) -> str:
        """Name of the last bundle."""
        return self.hops[-1] if self.hops else self.installed


@dataclass(frozen=True, slots=True)
class PlatformPlan(PlanReport):
    """The way of installed operators through versions of OpenShift.

    Attributes:
        steps: The steps, operator by operator.
    """

    steps: tuple[PlatformStep, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The operators."""
        return tuple(dict.fromkeys(f"package {step.package}" for step in self.steps))

    def problems(self) -> Iterator[PlanProblem]:
        """Yield what keeps clusters or operators from going on."""
        for step in self.steps:
            if step.problem:
                message = f"OpenShift {step.platform}: {step.final}: {step.problem}"
                yield PlanProblem(f"package {step.package}", step.kind, message, step.remedy)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return {"steps": [{**step.to_dict(), "final": step.final} for step in self.steps]}


def parse_platforms(catalogs: Mapping[str, str]) -> list[tuple[OpenShiftVersion, str]]:
    """Return the versions of OpenShift that are the names of catalogs, with these, in their order.

    Raises:
        CatalogError: A version is invalid or duplicate.
    """
    found: dict[OpenShiftVersion, str] = {}
    for name, catalog in catalogs.items():
        try:
            version = OpenShiftVersion.parse(name)
        except ValueError as error:
            raise CatalogError(f"catalog {name}: {error}", hint="name catalogs by versions: v4.18=INDEX") from error
        if version in found:
            raise CatalogError(f"several catalogs are for OpenShift {version}", hint="name one for each version")
        found[version] = catalog
    return sorted(found.items())


def plan_platforms(
    platforms: Sequence[PlatformCatalog],
    installed: Sequence[str],
    channels: Mapping[str, str] | None = None,
    read_label: ReadLabel | None = None,
) -> PlatformPlan:
    """Plan the updates of operators on each of several versions of OpenShift.

    Args:
        platforms: The versions with their catalogs, in the order in which the cluster gets them.
        installed: Names of bundles that are installed on the first version.
        channels: Channels that Subscriptions follow, by package; by default the default channel if it has the bundle,
            otherwise the first one by name that has it.
        read_label: Returns the label `VERSIONS` of a bundle image; without it, labels do not count.

    Raises:
        CatalogError: The first catalogs do not have an installed bundle, or it is not in its channel.
    """
    planners = [_PlatformPlanner(platform, read_label) for platform in platforms]
    steps: list[PlatformStep] = []
    for name in installed:
        entry: CatalogEntry | None = planners[0].find(name, channels or {})
        for planner, following in zip_longest(planners, [platform.version for platform in platforms[1:]]):
            if entry is None:
                break
            step, entry = planner.step(entry, following)
            steps.append(step)
    return PlatformPlan(tuple(steps))


class _PlatformPlanner:
    """Plans the updates of operators on one version of OpenShift."""

    def __init__(self, platform: PlatformCatalog, read_label: ReadLabel | None) -> None:
        self._platform = platform
        self._read_label = read_label
        self._entries = list_candidates(platform.catalog, _KEY)
        self._planner = UpdatePlanner(ResolvableCatalog(_KEY, self._entries))

    def find(self, name: str, channels: Mapping[str, str]) -> CatalogEntry:
        """Return an installed bundle in the channel that it follows; raises CatalogError if there is none."""
        found = [entry for entry in self._entries if entry.name == name]
        if not found:
            names = sorted({entry.name for entry in self._entries})
            raise CatalogError(
                f"installed bundle {name!r} not found in the catalog of OpenShift {self._platform.version}",
                hint=suggest_names("bundles", name, names),
            )
        if not (wanted := channels.get(found[0].package)):
            return min(found, key=lambda entry: (not entry.in_default_channel, entry.channel))
        in_channel = next((entry for entry in found if entry.channel == wanted), None)
        if in_channel is None:
            raise CatalogError(
                f"installed bundle {name!r} is not in channel {wanted}",
                hint=suggest_names("channels", wanted, sorted(entry.channel for entry in found)),
            )
        return in_channel

    def step(
        self, installed: CatalogEntry, following: OpenShiftVersion | None
    ) -> tuple[PlatformStep, CatalogEntry | None]:
        """Return the step of an operator, and its bundle afterwards; None if it does not get to the next version."""
        package, channel = installed.package, installed.channel
        (path,) = self._planner.paths(package, channel, [installed])
        by_name = {entry.name: entry for entry in self._entries if (entry.package, entry.channel) == (package, channel)}
        way = [installed, *(by_name[name] for name in path.hops)]
        final = way[-1]
        ends = self._support_ends(final)
        kind, problem, remedy, needed = "", "", "", ""
        if path.outcome is not Outcome.HEAD:
            kind, problem, remedy = path.outcome.value, path.reason, path.remedy
        version = self._platform.version
        if following is not None and not _accepts(installed, version, following):
            needed = next((entry.name for entry in way if _accepts(entry, version, following)), "")
            if not needed:
                kind, (problem, remedy) = "blocked", _obstacle(final, following, version)
        if not problem and (unsupported := self._unsupported(final)):
            kind, problem = "unsupported", unsupported
        step = PlatformStep(
            str(version), package, channel, installed.name, tuple(path.hops), needed, ends, problem, kind, remedy
        )
        return step, None if kind in ("blocked", "gone") else final

    def _support_ends(self, entry: CatalogEntry) -> date | None:
        lifecycle = read_lifecycles(self._platform.others, entry.package).get(_minor(entry))
        return lifecycle.ends if lifecycle else None

    def _unsupported(self, entry: CatalogEntry) -> str:
        """Return why the lifecycle or the image of a bundle excludes the version of OpenShift, or ""."""
        version = self._platform.version
        lifecycle = read_lifecycles(self._platform.others, entry.package).get(_minor(entry))
        if lifecycle and lifecycle.platforms is not None and version not in lifecycle.platforms:
            return f"its lifecycle does not name OpenShift {version}"
        image = self._platform.catalog.packages[entry.package].bundles[entry.name].image
        released = self._read_label(image) if self._read_label and image else ""
        try:
            if released and version not in OpenShiftRange.parse(released):
                return f"its label {VERSIONS} ({released}) excludes OpenShift {version}"
        except ValueError as error:
            return f"its label {VERSIONS} is invalid: {error}"
        return ""


def _minor(entry: CatalogEntry) -> str:
    version = entry.bundle.version
    return f"{version[0]}.{version[1]}" if version else ""


def _last_version(entry: CatalogEntry) -> OpenShiftVersion | None:
    """Return the last version of OpenShift on which a bundle works; raises ValueError, see `read_max_version`."""
    return read_max_version([item.value for item in entry.bundle.properties if item.type == MAX_VERSION])


def _accepts(entry: CatalogEntry, current: OpenShiftVersion, following: OpenShiftVersion) -> bool:
    """Return whether OLM lets a cluster with this bundle be updated from a version of OpenShift to a later one."""
    try:
        last = _last_version(entry)
    except ValueError:
        return False
    release = current.release
    least = max(OpenShiftVersion(release.major, release.minor + 1), following.release)
    return last is None or last.release >= least


def _obstacle(entry: CatalogEntry, following: OpenShiftVersion, version: OpenShiftVersion) -> tuple[str, str]:
    """Return why a bundle blocks the update of the cluster, and what to change."""
    try:
        last = _last_version(entry)
    except ValueError as error:
        return (
            f"its property {MAX_VERSION} is invalid ({error}), so that the cluster is not updated to {following}",
            "write a version such as '4.18' in quotes",
        )
    needed, same = following, ""
    if version.release == following.release:
        needed = OpenShiftVersion(following.major, following.minor + 1)
        same = f", but OLM 0.42 and later takes {version} for {following} and requires {needed}"
    reason = f"works up to OpenShift {last}{same}, so that the cluster is not updated to {following}"
    return reason, f"publish a version for OpenShift {needed} in the catalog of {version}"
