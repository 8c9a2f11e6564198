"""Update paths of ClusterExtensions: where OLM v1 takes each version that a catalog can have left installed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.plan.candidate import skip_range
from opmkit.index.plan.extension import (
    ExtensionPackage,
    InstalledBundle,
    ResolvedBundle,
    UnresolvedExtension,
    bundle_version,
    refused_dependency,
    resolve_extension,
    version_text,
)
from opmkit.index.plan.paths import Outcome, UpdatePath
from opmkit.index.plan.result import PlanProblem, PlanReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.plan.extension import ExtensionCatalog, ExtensionRequest, VersionRelease


def plan_extension_updates(catalog: Blobs, published: Blobs, packages: Iterable[str] = ()) -> Iterator[UpdatePath]:
    """Yield the path of each published bundle: of an extension without channels, and of one for each of its channels.

    Args:
        catalog: The new catalog.
        published: The catalog that clusters have installed bundles from.
        packages: Names of packages, by default all of the published catalog.
    """
    before, after = _by_package(published), _by_package(catalog)
    for package in sorted(set(packages) or before.keys()):
        old, new = before.get(package, Blobs()), after.get(package, Blobs())
        for channel in ("", *sorted({each.name for each in old.channels})):
            selected = (channel,) if channel else ()
            installed = ExtensionPackage.of(old, package, selected).bundles
            yield from _Updates(package, channel, ExtensionPackage.of(new, package, selected), new).paths(installed)


def _by_package(blobs: Blobs) -> Mapping[str, Blobs]:
    groups = defaultdict(list)
    for blob in blobs:
        groups[blob.package].append(blob)
    return {package: Blobs.from_blobs(group) for package, group in groups.items()}


_Installed = tuple[str, "VersionRelease | None"]
"""Name and version of an installed bundle."""


class _Candidate(Struct, frozen=True):
    """A bundle, with the type of the property with which OLM v1 refuses it, or ""."""

    key: _Installed
    dependency: str

    @classmethod
    def of(cls, bundle: BundleBlob) -> _Candidate:
        return cls((bundle.name, bundle_version(bundle)), refused_dependency(bundle))


class _Updates(Struct, frozen=True):
    """The updates of extensions with the same channels.

    Attributes:
        package: Name of the package.
        channel: The only channel that is selected, or "" for all.
        selected: What they consider.
        catalog: All of the package in the new catalog.
    """

    package: str
    channel: str
    selected: ExtensionPackage
    catalog: Blobs

    def paths(self, installed: Sequence[BundleBlob]) -> Iterator[UpdatePath]:
        """Yield the paths of installed bundles."""
        ranked = [
            _Candidate.of(bundle) for bundle in sorted(self.selected.bundles, key=self.selected.rank, reverse=True)
        ]
        present = [_Candidate.of(bundle) for bundle in installed]
        following = self._following(ranked, {each.key for each in (*present, *ranked)})
        for each in present:
            yield self._path(each, ranked[0] if ranked else None, following)

    def _following(self, ranked: Sequence[_Candidate], installed: set[_Installed]) -> dict[_Installed, _Candidate]:
        """Return the bundle that OLM v1 installs after each one: the preferred of those with its version or an edge."""
        by_name, by_version = defaultdict(list), defaultdict(list)
        for key in installed:
            by_name[key[0]].append(key)
            by_version[key[1]].append(key)
        ordered = sorted((version.version, (name, version)) for name, version in installed if version is not None)
        versions = [version for version, _ in ordered]
        entries = defaultdict(list)
        for channel in self.selected.channels:
            for entry in channel.entries:
                entries[entry.name].append(entry)
        following: dict[_Installed, _Candidate] = {}
        for candidate in ranked:
            name, version = candidate.key
            reached = [] if version is None else [by_version.get(version, [])]
            for entry in entries[name]:
                reached += [by_name.get(target, []) for target in (entry.replaces, *entry.skips)]
                spans = span.spans(versions) if (span := skip_range(entry)) else ()
                reached += [[key for _, key in ordered[start:end]] for start, end in spans]
            for keys in reached:
                for key in keys:
                    following.setdefault(key, candidate)
        return following

    def _path(
        self, installed: _Candidate, head: _Candidate | None, following: Mapping[_Installed, _Candidate]
    ) -> UpdatePath:
        hops: dict[str, None] = {}
        name, version = current = installed.key
        while (found := following.get(current)) is not None:
            if found.dependency:
                reason = f"{found.key[0]} has a dependency ({found.dependency}), with which OLM v1 installs no bundle"
                return self._ending(installed, hops, Outcome.UNRESOLVABLE, reason, "publish it without dependencies")
            if found.key[0] == name or found.key[0] in hops:
                break
            name, version = current = found.key
            hops[name] = None
        if head is None:
            return self._ending(installed, hops, Outcome.GONE, *self._missing())
        if version is None:
            reason = f"{name} has no valid version, so that OLM v1 cannot update it"
            return self._ending(installed, hops, Outcome.UNRESOLVABLE, reason)
        if name == head.key[0]:
            return self._ending(installed, hops, Outcome.HEAD)
        reason = f"no entry of {self.channel or 'any channel'} replaces or skips {name}"
        return self._ending(installed, hops, Outcome.STUCK, reason, f"let {head.key[0]} skip {name}")

    def _ending(
        self, installed: _Candidate, hops: Iterable[str], outcome: Outcome, reason: str = "", remedy: str = ""
    ) -> UpdatePath:
        name, _ = installed.key
        return UpdatePath(self.package, self.channel, name, tuple(hops), outcome, reason, remedy, OlmVersion.V1)

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
        problem: Why nothing is installed at the end, or "".
        remedy: What to change then, or "".
    """

    request: ExtensionRequest
    steps: tuple[ResolvedBundle, ...]
    problem: str = ""
    remedy: str = ""

    @property
    def is_blocked(self) -> bool:
        """Whether OLM v1 reports an error."""
        return bool(self.problem)

    @property
    def targets(self) -> tuple[str, ...]:
        """The ClusterExtension."""
        return (f"ClusterExtension of {self.request.package}",)

    def problems(self) -> Iterator[PlanProblem]:
        """Yield why nothing is installed at the end."""
        if self.is_blocked:
            yield PlanProblem(self.targets[0], "blocked", self.problem, self.remedy)

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
    current = request
    while True:
        try:
            found = resolve_extension(current, catalogs)
        except UnresolvedExtension as error:
            return ExtensionPlan(request, tuple(steps), error.message, str(error.hint))
        if current.installed and found.bundle.name == current.installed.name:
            return ExtensionPlan(request, tuple(steps))
        if any(step.bundle.name == found.bundle.name for step in steps):
            return ExtensionPlan(
                request, tuple(steps), f"updates lead back to {found.bundle.name}", "give the versions an order"
            )
        steps.append(found)
        current = replace(current, installed=InstalledBundle(found.bundle.name, version_text(found.bundle)))
