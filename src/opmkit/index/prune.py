"""Reducing an index to some of its packages, or to what its channels lead to (index semantics, section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.database.removal import package_names, remove_package, remove_stranded_bundles
from opmkit.index.remove import Removal

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit.index.database import IndexDatabase


def prune_packages(database: IndexDatabase, keep: Collection[str]) -> Removal:
    """Remove every package that is not in ``keep``, which may name packages that the index lacks.

    If any is removed, so are the stranded bundles of every package.
    """
    removed = tuple(name for name in package_names(database) if name not in keep)
    with database.transaction():
        for name in removed:
            remove_package(database, name)
    return Removal(removed)


def prune_stranded(database: IndexDatabase) -> None:
    """Remove the bundles that no channel has an entry for; deprecated ones stay, and so do those that are skipped."""
    with database.transaction():
        remove_stranded_bundles(database)
