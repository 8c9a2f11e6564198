"""Reducing an index to some of its packages, or to what its channels lead to (index semantics, section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import combined
from opmkit.index.operations.remove import Removal
from opmkit.index.sqlite.removal import package_names, remove_package, remove_stranded_bundles
from opmkit.index.suggestions import packages_not_found

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit.index.sqlite import IndexDatabase


def prune_packages(database: IndexDatabase, keep: Collection[str], *, permissive: bool = False) -> Removal:
    """Remove every package that is not in ``keep``; if any is removed, also the stranded bundles of every package.

    Raises:
        UnknownPackage: the index lacks some of the packages to keep. Where ``permissive``, this is a failure of the
            result instead.
    """
    known = package_names(database)
    failures = packages_not_found(keep, known)
    if failures and not permissive:
        raise combined(failures)
    removed = tuple(name for name in known if name not in keep)
    with database.transaction():
        for name in removed:
            remove_package(database, name)
    return Removal(removed, failures)


def prune_stranded(database: IndexDatabase) -> None:
    """Remove the bundles that no channel has an entry for; deprecated ones stay, and so do those that are skipped."""
    with database.transaction():
        remove_stranded_bundles(database)
