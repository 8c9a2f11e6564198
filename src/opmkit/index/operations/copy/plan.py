"""Determine which packages to copy from one catalog to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.fbc.migrate import MigrationLevel, migrate, migration_level
from opmkit.index.fbc.packages import select_packages
from opmkit.index.operations.copy.result import CopiedPackage, CopyAction, CopyPlan, CopyResult
from opmkit.index.operations.filter.fbc import filter_blobs
from opmkit.index.operations.filter.package_filter import PackageFilter
from opmkit.index.operations.filter.requirements import unmet_requirements
from opmkit.index.operations.merge.differences import fingerprint, package_differences
from opmkit.index.operations.merge.prefer import choose_source, parse_preferences
from opmkit.index.operations.merge.result import MergeConflict, NamedCatalog, PackageConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.operations.filter.requirements import UnmetRequirement
    from opmkit.index.operations.merge.prefer import Preference


def plan_copy(
    source: NamedCatalog,
    target: NamedCatalog,
    filters: Sequence[PackageFilter],
    *,
    dependencies: bool = True,
    prefer: Sequence[str] = (),
    level: MigrationLevel | None = None,
) -> CopyPlan:
    """Determine which packages to copy, and in which form.

    Packages are copied with all their documents. Dependencies are the packages of the source that meet a requirement
    of a copied package which neither the target nor a copied package meets; they are copied whole. If several packages
    meet a requirement, all of them are copied.

    Args:
        source: the catalog to copy from.
        target: the catalog to copy to; only the packages that are copied must be valid.
        filters: the packages to copy, or parts of them.
        dependencies: whether to copy dependencies; otherwise they are listed as warnings.
        prefer: for packages that the target has with different content: see `parse_preferences`. The target is the
            first source, and the source the last one.
        level: the migration level of copied bundles; None for that of the other bundles in the target.

    Raises:
        MergeConflict: the target has packages with different content, and no preference applies.
        UnknownPackage, CatalogError: the source does not have a package or channel, or a preference is invalid.
        InvalidCatalog: a package to copy is invalid.
    """
    names = [{blob.package for blob in catalog.blobs if blob.package} for catalog in (target, source)]
    preferences = parse_preferences(prefer, [target.name, source.name], names)
    copy = _Copy(source, target, preferences, level)
    copy.take(filters, {})
    while True:
        unmet = unmet_requirements(source.blobs.bundles, copy.bundles(), packages=copy.contents, unprovided=True)
        missing = [requirement for requirement in unmet if copy.new_providers(requirement)]
        if not (missing and dependencies):
            return copy.plan(unmet)
        reasons: dict[str, list[str]] = {}
        for requirement in missing:
            for name in copy.new_providers(requirement):
                reasons.setdefault(name, []).append(str(requirement))
        copy.take([PackageFilter(name) for name in sorted(reasons)], reasons)


@dataclass(slots=True)
class _Copy:
    """The state of a copy: the packages so far, with the content that the target will have."""

    source: NamedCatalog
    target: NamedCatalog
    preferences: Sequence[Preference]
    level: MigrationLevel | None
    contents: dict[str, Blobs] = field(default_factory=dict)
    packages: list[CopiedPackage] = field(default_factory=list)
    conflicts: list[PackageConflict] = field(default_factory=list)

    def take(self, filters: Sequence[PackageFilter], reasons: Mapping[str, Sequence[str]]) -> None:
        """Decide about packages; ``reasons`` are requirements that they meet."""
        filtered = filter_blobs(self.source.blobs, filters).blobs
        names = list(dict.fromkeys(wanted.package for wanted in filters))
        present = select_packages(self.target.blobs, names)
        for name, package in select_packages(filtered, names).items():
            migrated = migrate(package, self.level or migration_level(self.target.blobs, name))
            reason = tuple(reasons.get(name, ()))
            action = self._decide(name, migrated, present[name], reason)
            keeps_target = action in (CopyAction.EQUAL, CopyAction.RETAINED)
            self.contents[name] = present[name] if keeps_target else migrated
            self.packages.append(CopiedPackage(name, action, reason))

    def _decide(self, name: str, package: Blobs, present: Blobs, reason: Sequence[str]) -> CopyAction:
        if not any(True for _ in present):
            return CopyAction.ADDED
        if fingerprint(package) == fingerprint(present):
            return CopyAction.EQUAL
        chosen = choose_source(name, [self.target.name, self.source.name], self.preferences)
        if chosen is None:
            differences = package_differences(present, package)
            sides = (self.target.name,), (self.source.name,)
            self.conflicts.append(PackageConflict(name, *sides, differences, "; ".join(reason)))
        return CopyAction.RETAINED if chosen == self.target.name else CopyAction.REPLACED

    def bundles(self) -> Iterator[BundleBlob]:
        """Yield the bundles that the target will have."""
        yield from (bundle for package in self.contents.values() for bundle in package.bundles)
        yield from (bundle for bundle in self.target.blobs.bundles if bundle.package not in self.contents)

    def new_providers(self, requirement: UnmetRequirement) -> list[str]:
        """Return the packages that meet a requirement and about which nothing is decided yet."""
        return [name for name in requirement.providers if name not in self.contents]

    def plan(self, unmet: Iterable[UnmetRequirement]) -> CopyPlan:
        """Return the plan; raise MergeConflict if there are conflicts."""
        if self.conflicts:
            raise MergeConflict(self.conflicts)
        written = {
            each.package: self.contents[each.package]
            for each in self.packages
            if each.action in (CopyAction.ADDED, CopyAction.REPLACED)
        }
        result = CopyResult(self.source.name, self.target.name, tuple(self.packages))
        return CopyPlan(written, result, tuple(map(self._warning, unmet)))

    def _warning(self, requirement: UnmetRequirement) -> str:
        if requirement.providers:
            return f"{requirement}, which is not copied: {' and '.join(requirement.providers)} would meet it"
        return f"{requirement}, which neither {self.source.name} nor {self.target.name} provides"
