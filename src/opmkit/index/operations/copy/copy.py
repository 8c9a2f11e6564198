"""Copy packages from an index of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from opmkit.index.change import AppliedChange, Change, ChangeResult, EditResult
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate, migration_level
from opmkit.index.fbc.packages import replace_packages, select_packages
from opmkit.index.fbc.write import require_empty, to_json, write_catalog
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource
from opmkit.index.operations.filter.fbc import filter_blobs
from opmkit.index.operations.filter.result import PackageFilter, unmet_requirements
from opmkit.index.operations.merge.differences import fingerprint, package_differences
from opmkit.index.operations.merge.owners import choose_source, parse_preferences
from opmkit.index.operations.merge.result import MergeConflict, NamedCatalog, PackageConflict
from opmkit.index.sqlite.packages import copy_package
from opmkit.index.sqlite.removal import remove_package

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.operations.filter.result import UnmetRequirement
    from opmkit.index.operations.merge.owners import Preference
    from opmkit.index.sqlite import IndexDatabase


NEW_TARGET = "the new index"
"""The name of a target without another name, for messages."""


@dataclass(frozen=True, slots=True)
class CopyPackages(Change):
    """Copy packages, and the packages that they depend on, from another index.

    See :func:`opmkit.index.operations.copy.copy.plan_copy`. Rows are copied from one database to another; otherwise the
    result is a file-based catalog.

    Attributes:
        source: The index to copy from.
        target: The name of the index that is changed, for messages and preferences.
        filters: The packages, or parts of them. A database can store whole packages only.
    """

    source: IndexSource
    target: str
    filters: Sequence[PackageFilter]
    dependencies: bool = True
    prefer: Sequence[str] = ()
    level: MigrationLevel | None = None

    @property
    def supports_databases(self) -> bool:
        """Whether rows can be copied: whole packages of another database."""
        self.source.require(INDEXES)
        return self.source.kind in DATABASES and not any(item.channels or item.version_range for item in self.filters)

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Copy rows."""
        self.check_database_support()
        with self.source.open() as content:
            if not isinstance(content, DatabaseContent):
                raise TypeError(f"{self.source.text}: not a database")
            with content.open() as source, database.transaction():
                plan = self._plan(database_to_blobs(source), database_to_blobs(database), MigrationLevel.NONE)
                for name in plan.packages:
                    remove_package(database, name)
                    copy_package(source, database, name)
        return ChangeResult(warnings=plan.warnings, report=plan.result)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Copy documents."""
        plan = self._plan(self.source.blobs(), blobs, self.level)
        return EditResult(replace_packages(blobs, plan.packages), warnings=plan.warnings, report=plan.result)

    def _plan(self, source: Blobs, target: Blobs, level: MigrationLevel | None) -> CopyPlan:
        return plan_copy(
            NamedCatalog(self.source.text, source),
            NamedCatalog(self.target, target),
            self.filters,
            dependencies=self.dependencies,
            prefer=self.prefer,
            level=level,
        )

    def write(
        self, tool: ContainerTool, target: str | None, directory: Path, *, dry_run: bool = False
    ) -> AppliedChange:
        """Write the target with the copied packages as a catalog to a directory that is empty or does not exist.

        Args:
            tool: The tool for the image of the target.
            target: The index to copy to, which is not changed; None for an empty one.
            directory: The directory.
            dry_run: Whether to write nothing.

        Raises:
            CatalogError: The directory is not empty, or the packages cannot be copied.
            ImageToolsError: An image cannot be read.
        """
        require_empty(directory)
        before = IndexSource.find(lambda: tool, target, build_context=True).blobs() if target else Blobs()
        edit = self.apply_to_catalog(before)
        if not dry_run:
            write_catalog(edit.blobs, directory, "json", to_json)
        return AppliedChange.from_result(diff_blobs(before, edit.blobs), edit)


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
        source: The catalog to copy from.
        target: The catalog to copy to; only the packages that are copied must be valid.
        filters: The packages to copy, or parts of them.
        dependencies: Whether to copy dependencies; otherwise they are listed as warnings.
        prefer: For packages that the target has with different content: see `parse_preferences`. The target is the
            first source, and the source the last one.
        level: The migration level of copied bundles; None for that of the other bundles in the target.

    Raises:
        MergeConflict: The target has packages with different content, and no preference applies.
        UnknownPackage, CatalogError: The source does not have a package or channel, or a preference is invalid.
        InvalidCatalog: A package to copy is invalid.
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


class _Copy(Struct):
    """The state of a copy: the packages so far, with the content that the target will have."""

    source: NamedCatalog
    target: NamedCatalog
    preferences: Sequence[Preference]
    level: MigrationLevel | None
    contents: dict[str, Blobs] = {}
    packages: list[CopiedPackage] = []
    conflicts: list[PackageConflict] = []

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


class CopyAction(StrEnum):
    """Action of a copy for a package."""

    ADDED = "added"
    REPLACED = "replaced"
    EQUAL = "equal"
    RETAINED = "retained"


_TEXTS = {
    CopyAction.ADDED: "copied from {source}",
    CopyAction.REPLACED: "copied from {source}, preferred to {target}",
    CopyAction.EQUAL: "not copied: equal in {target}",
    CopyAction.RETAINED: "not copied: {target} preferred to {source}",
}


class CopiedPackage(Struct, frozen=True):
    """A package that was named, or that is required, and what the copy does with it.

    Attributes:
        package: Its name.
        action: What the copy does with it.
        required_by: The requirements of other packages that it meets, none for a package that was named.
    """

    package: str
    action: CopyAction
    required_by: tuple[str, ...] = ()

    def line(self, source: str, target: str) -> str:
        """Format the package, with the reason if it was not named."""
        action = _TEXTS[self.action].format(source=source, target=target)
        return f"package {self.package}: {action}{''.join(f'; {reason}' for reason in self.required_by)}"


class CopyResult(Struct, frozen=True):
    """The packages of a copy: first those that were named, then their dependencies."""

    source: str
    target: str
    packages: tuple[CopiedPackage, ...]

    def lines(self) -> Iterator[str]:
        """Yield a line for each package."""
        for package in self.packages:
            yield package.line(self.source, self.target)

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return {"source": self.source, "target": self.target, "copied": [asdict(each) for each in self.packages]}


class CopyPlan(Struct, frozen=True):
    """The packages to write to the target, by name, with a report and warnings."""

    packages: Mapping[str, Blobs]
    result: CopyResult
    warnings: tuple[str, ...] = ()
