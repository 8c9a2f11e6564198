"""``rm``: remove packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.errors import PackageNotRemoved, combine_errors
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.sqlite.removal import package_names, remove_package, remove_stranded_bundles
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opmkit.index.errors import CatalogError
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class RemovePackages(Change):
    """Remove packages."""

    packages: Sequence[str]
    permissive: bool = False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Remove the packages from a database."""
        result = remove_from_database(database, self.packages, permissive=self.permissive)
        return ChangeResult(failures=result.failures)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Remove the packages from a file-based catalog."""
        return remove_from_catalog(blobs, self.packages, permissive=self.permissive)


class RemoveResult(Struct, frozen=True):
    """The removed packages, in order, and the failures in permissive mode."""

    removed: tuple[str, ...]
    failures: tuple[CatalogError, ...] = ()


def remove_from_database(database: IndexDatabase, names: Sequence[str], *, permissive: bool = False) -> RemoveResult:
    """Remove packages with their bundles, and the stranded bundles of every package.

    Atomic unless permissive; then unknown packages are returned as a failure. A repeated name is unknown the second
    time, as in operator-registry.

    Raises:
        PackageNotRemoved: The index does not have some of the packages.
    """
    known = package_names(database)
    with database.transaction():
        names = [name for name in names if name]
        found = [remove_package(database, name) for name in names]
        unknown = [name for name, existed in zip(names, found, strict=True) if not existed]
        if unknown and not permissive:
            raise _not_removed(unknown, known)
        remove_stranded_bundles(database)
    removed = tuple(name for name, existed in zip(names, found, strict=True) if existed)
    return RemoveResult(removed, (_not_removed(unknown, known),) if unknown else ())


def remove_from_catalog(blobs: Blobs, names: Sequence[str], *, permissive: bool = False) -> EditResult:
    """Remove all blobs of packages, whatever their schema; ignore empty names.

    Raises:
        UnknownPackage: The catalog does not have some of the packages and ``permissive`` is not set.
    """
    failures = unknown_packages(names, {blob.package for blob in blobs if blob.package})
    if failures and not permissive:
        raise combine_errors(failures)
    return EditResult(without_packages(blobs, {name for name in names if name}), failures=failures)


def without_packages(blobs: Blobs, names: Collection[str]) -> Blobs:
    """Return the catalog without the blobs of packages."""
    if not names:
        return blobs
    return Blobs.from_blobs(blob for blob in blobs if not blob.package or blob.package not in names)


def _not_removed(names: Sequence[str], known: Sequence[str]) -> PackageNotRemoved:
    """Return the error for unknown packages, with the message of operator-registry, which scripts match."""
    causes = (f"error removing operator package {name}: no package found for packagename {name}" for name in names)
    return PackageNotRemoved(
        f"error deleting packages from database: {'; '.join(causes)}",
        hint=suggest_names("packages", "", known),
    )
