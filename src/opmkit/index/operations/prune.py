"""``prune`` and ``prune-stranded``: remove all packages except some, or bundles that are in no channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.errors import combine_errors
from opmkit.index.fbc.blobs import BUNDLE
from opmkit.index.operations.deprecate import remove_references
from opmkit.index.operations.remove import RemoveResult, without_packages
from opmkit.index.sqlite.removal import package_names, remove_package, remove_stranded_bundles
from opmkit.index.suggestions import unknown_packages

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class PrunePackages(Change):
    """Remove all packages except those in ``keep``."""

    keep: Collection[str]
    permissive: bool = False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Prune a database."""
        return ChangeResult(failures=prune_database(database, self.keep, permissive=self.permissive).failures)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Prune a file-based catalog."""
        return prune_catalog(blobs, self.keep, permissive=self.permissive)


@dataclass(frozen=True, slots=True)
class PruneStranded(Change):
    """Remove bundles that are in no channel."""

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Remove stranded bundles from a database."""
        prune_stranded_in_database(database)
        return ChangeResult()

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Remove stranded bundles from a file-based catalog."""
        return prune_stranded_in_catalog(blobs)


def prune_database(database: IndexDatabase, keep: Collection[str], *, permissive: bool = False) -> RemoveResult:
    """Remove every package that is not in ``keep``; if any is removed, also the stranded bundles of all packages.

    Raises:
        UnknownPackage: The index does not have some of the packages in ``keep``; a failure of the result if
            ``permissive``.
    """
    known = package_names(database)
    failures = unknown_packages(keep, known)
    if failures and not permissive:
        raise combine_errors(failures)
    removed = tuple(name for name in known if name not in keep)
    with database.transaction():
        for name in removed:
            remove_package(database, name)
    return RemoveResult(removed, failures)


def prune_catalog(blobs: Blobs, keep: Collection[str], *, permissive: bool = False) -> EditResult:
    """Remove every package that is not in ``keep``; retain blobs without a package.

    Raises:
        UnknownPackage: The catalog does not have some of the packages in ``keep``; a failure of the result if
            ``permissive``.
    """
    known = {blob.package for blob in blobs if blob.package}
    failures = unknown_packages(keep, known)
    if failures and not permissive:
        raise combine_errors(failures)
    return EditResult(without_packages(blobs, known.difference(keep)), failures=failures)


def prune_stranded_in_database(database: IndexDatabase) -> None:
    """Remove the bundles without a channel entry, except deprecated ones. Skipped bundles have an entry."""
    with database.transaction():
        remove_stranded_bundles(database)


def prune_stranded_in_catalog(blobs: Blobs) -> EditResult:
    """Remove the bundles without an entry in a channel of their package, and their deprecations."""
    placed = {(channel.package, entry.name) for channel in blobs.channels for entry in channel.entries}
    stranded = {(bundle.package, bundle.name) for bundle in blobs.bundles} - placed
    if not stranded:
        return EditResult(blobs)
    bundles = tuple(bundle for bundle in blobs.bundles if (bundle.package, bundle.name) not in stranded)
    removed = {(package, BUNDLE, name) for package, name in stranded}
    deprecations = remove_references(blobs.deprecations, removed)
    return EditResult(replace(blobs, bundles=bundles, deprecations=deprecations))
