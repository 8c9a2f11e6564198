"""Merge indexes of either kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.change import AppliedChange, CatalogChange, EditResult
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Blobs, OtherBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.write import require_empty, sort_blobs, to_json, write_catalog
from opmkit.index.image.source import IndexSource
from opmkit.index.operations.merge.differences import document_key, fingerprint, package_differences
from opmkit.index.operations.merge.owners import choose_source, parse_preferences
from opmkit.index.operations.merge.result import (
    MergeConflict,
    MergeResult,
    NamedCatalog,
    PackageConflict,
    PackageOrigin,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.fbc.blobs import Blob
    from opmkit.index.operations.merge.owners import Owners, Preference


@dataclass(frozen=True, slots=True)
class MergeIndexes(CatalogChange):
    """Fill a new file-based catalog with the packages of several indexes.

    See :func:`opmkit.index.operations.merge.merge.merge_catalogs`. Databases are converted, and bundles are migrated to
    ``level`` before packages are compared.
    """

    tool: ContainerTool
    sources: Sequence[str]
    progress: Progress
    prefer: Sequence[str] = ()
    level: MigrationLevel = MigrationLevel.NONE
    owners: Owners | None = None

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Read the sources and merge them; ``blobs`` is the new catalog, which is empty."""
        found = [IndexSource.find(lambda: self.tool, name, build_context=True) for name in self.sources]
        self.progress.begin("Reading indexes", len(found), "indexes")
        try:
            catalogs = [self._read(source) for source in found]
        finally:
            self.progress.end()
        result = merge_catalogs(catalogs, self.prefer, self.owners)
        warnings = self.owners.warnings(self.sources) if self.owners else ()
        return EditResult(blobs + result.blobs, warnings=warnings, report=result)

    def _read(self, source: IndexSource) -> NamedCatalog:
        blobs = migrate(source.blobs(), self.level)
        self.progress.advance(1)
        return NamedCatalog(source.text, blobs)

    def write(self, directory: Path, *, dry_run: bool = False) -> AppliedChange:
        """Write the merged catalog to a directory that is empty or does not exist; with ``dry_run``, write nothing.

        Raises:
            CatalogError: The directory is not empty, or the indexes cannot be merged.
            ImageToolsError: An image cannot be read.
        """
        require_empty(directory)
        edit = self.apply_to_catalog(Blobs())
        if not dry_run:
            write_catalog(edit.blobs, directory, "json", to_json)
        return AppliedChange.from_result(diff_blobs(Blobs(), edit.blobs), edit)


def merge_catalogs(
    catalogs: Sequence[NamedCatalog], prefer: Sequence[str] = (), owners: Owners | None = None
) -> MergeResult:
    """Copy each package with all its documents from the catalog that has it.

    A package with equal content in several catalogs is copied from the first of them. Documents without a package are
    copied from all catalogs, equal ones once. Only the packages that are copied must be valid.

    Args:
        catalogs: The catalogs.
        prefer: For packages with different content: names of catalogs, ``first`` or ``last``, optionally after
            ``PACKAGE=``; the first of these that has the package applies, those for the package before others.
        owners: Owners of packages. The version of the only owner is preferred to all others.

    Raises:
        OwnershipViolation: A catalog has, or changes, a package that it does not own.
        MergeConflict: A package has different content in several catalogs, and no preference applies.
        CatalogError: A preferred catalog is not among ``catalogs``, or does not have the package.
        InvalidCatalog: A package is invalid.
    """
    packages = [_packages(catalog.blobs) for catalog in catalogs]
    preferences = parse_preferences(prefer, [catalog.name for catalog in catalogs], packages)
    if owners:
        packages = owners.check(catalogs, packages)
        preferences = (*owners.preferences(catalogs, packages), *preferences)
    chosen: list[list[str]] = [[] for _ in catalogs]
    origins: list[PackageOrigin] = []
    conflicts: list[PackageConflict] = []
    for name in sorted({name for by_name in packages for name in by_name}):
        groups = _equal_groups(name, packages)
        preferred = _choose(name, groups, catalogs, preferences)
        if preferred is None:
            conflicts += _conflicts(name, groups, catalogs, packages)
            continue
        group = next(group for group in groups if preferred in group)
        chosen[preferred].append(name)
        origins.append(
            PackageOrigin(
                name,
                catalogs[preferred].name,
                tuple(catalogs[index].name for index in group if index != preferred),
                tuple(catalogs[index].name for other in groups if other is not group for index in other),
            )
        )
    if conflicts:
        raise MergeConflict(conflicts)
    copied: list[Blob] = []
    for catalog, by_name, names in zip(catalogs, packages, chosen, strict=True):
        selected = [blob for name in names for blob in by_name[name]]
        _validate(catalog, selected)
        copied += selected
    return MergeResult(
        Blobs.from_blobs(sort_blobs(Blobs.from_blobs([*copied, *_without_package(catalogs)]))), tuple(origins)
    )


def _packages(blobs: Blobs) -> dict[str, Blobs]:
    """Return the blobs of each package."""
    by_name: defaultdict[str, list[Blob]] = defaultdict(list)
    for blob in blobs:
        if blob.package:
            by_name[blob.package].append(blob)
    return {name: Blobs.from_blobs(members) for name, members in by_name.items()}


def _equal_groups(name: str, packages: Sequence[dict[str, Blobs]]) -> list[list[int]]:
    """Return groups of indices of the catalogs that have a package, each with equal content."""
    indices = [index for index, by_name in enumerate(packages) if name in by_name]
    if len(indices) == 1:
        return [indices]
    groups: defaultdict[tuple[bytes, ...], list[int]] = defaultdict(list)
    for index in indices:
        groups[fingerprint(packages[index][name])].append(index)
    return list(groups.values())


def _choose(
    package: str, groups: Sequence[Sequence[int]], catalogs: Sequence[NamedCatalog], preferences: Iterable[Preference]
) -> int | None:
    """Return the index of the catalog to copy a package from, None if it is not determined."""
    if len(groups) == 1:
        return groups[0][0]
    indices = sorted(index for group in groups for index in group)
    names = [catalogs[index].name for index in indices]
    name = choose_source(package, names, preferences)
    return None if name is None else indices[names.index(name)]


def _conflicts(
    name: str, groups: Sequence[Sequence[int]], catalogs: Sequence[NamedCatalog], packages: Sequence[dict[str, Blobs]]
) -> Iterator[PackageConflict]:
    """Yield a conflict of the first group with each other one."""
    first, *others = groups
    for other in others:
        yield PackageConflict(
            name,
            tuple(catalogs[index].name for index in first),
            tuple(catalogs[index].name for index in other),
            package_differences(packages[first[0]][name], packages[other[0]][name]),
        )


def _validate(catalog: NamedCatalog, selected: Iterable[Blob]) -> None:
    """Raise InvalidCatalog if a copied package is invalid, or a document of OLM's schemas has no package."""
    unnamed = [blob for blob in catalog.blobs if not blob.package and not isinstance(blob, OtherBlob)]
    try:
        raise_findings(check_blobs(Blobs.from_blobs([*selected, *unnamed])))
    except InvalidCatalog as error:
        first, *others = error.lines
        raise InvalidCatalog(f"{catalog.name}: invalid catalog: {first}", details=others, hint=error.hint) from error


def _without_package(catalogs: Iterable[NamedCatalog]) -> Iterable[Blob]:
    documents = (blob for catalog in catalogs for blob in catalog.blobs.others if not blob.package)
    unique: dict[bytes, Blob] = {}
    for blob in documents:
        unique.setdefault(document_key(blob), blob)
    return unique.values()
