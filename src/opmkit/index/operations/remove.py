"""Removing packages from an index, and what no channel leads to (index semantics, section 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import PackageNotRemoved
from opmkit.index.sqlite.removal import package_names, remove_package, remove_stranded_bundles
from opmkit.index.suggestions import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.errors import CatalogError
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class Removal:
    """The packages that were removed, in order. ``failures`` can be there in permissive mode only."""

    removed: tuple[str, ...]
    failures: tuple[CatalogError, ...] = ()


def remove_packages(database: IndexDatabase, names: Sequence[str], *, permissive: bool = False) -> Removal:
    """Remove packages and all bundles of theirs; also the stranded bundles of every package.

    All or nothing, unless ``permissive``: then packages that are not there are told as ``failures``. A name given
    twice is not there the second time.

    Raises:
        PackageNotRemoved: the index lacks some of the packages. Its message begins as callers of the reference tool
            expect it.
    """
    known = package_names(database)
    with database.transaction():
        wanted = [name for name in names if name]
        found = [remove_package(database, name) for name in wanted]
        unknown = [name for name, was_there in zip(wanted, found, strict=True) if not was_there]
        if unknown and not permissive:
            raise _not_removed(unknown, known)
        remove_stranded_bundles(database)
    removed = tuple(name for name, was_there in zip(wanted, found, strict=True) if was_there)
    return Removal(removed, (_not_removed(unknown, known),) if unknown else ())


def _not_removed(names: Sequence[str], known: Sequence[str]) -> PackageNotRemoved:
    """The error of packages that can't be removed for they are not among the known ones."""
    each = (f"error removing operator package {name}: no package found for packagename {name}" for name in names)
    return PackageNotRemoved(
        f"error deleting packages from database: {'; '.join(each)}",
        advice=f"The packages of the index are: {listed(known)}.",
    )
