"""Taking packages out of a catalog, and bundles that are in no channel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.errors import combined
from opmkit.index.fbc.blobs import BUNDLE, Blobs
from opmkit.index.operations.deprecate import without_references
from opmkit.index.operations.values import Edit
from opmkit.index.suggestions import packages_not_found

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def without_packages(blobs: Blobs, names: Sequence[str], *, permissive: bool = False) -> Edit:
    """Remove packages, with all that belongs to them, of whatever schema; empty names are ignored.

    Raises:
        UnknownPackage: the catalog lacks some of the packages. Where ``permissive``, this is a failure of the result
            instead, and the others are removed.
    """
    failures = packages_not_found(names, {blob.package for blob in blobs if blob.package})
    if failures and not permissive:
        raise combined(failures)
    return Edit(_without(blobs, {name for name in names if name}), failures=failures)


def with_only_packages(blobs: Blobs, names: Collection[str], *, permissive: bool = False) -> Edit:
    """Remove all packages except these; blobs without a package stay.

    Raises:
        UnknownPackage: the catalog lacks some of the packages to keep. Where ``permissive``, this is a failure of the
            result instead.
    """
    known = {blob.package for blob in blobs if blob.package}
    failures = packages_not_found(names, known)
    if failures and not permissive:
        raise combined(failures)
    return Edit(_without(blobs, known.difference(names)), failures=failures)


def without_stranded(blobs: Blobs) -> Edit:
    """Take out the bundles that no entry of a channel of their package names, and what is said on their deprecation."""
    placed = {(channel.package, entry.name) for channel in blobs.channels for entry in channel.entries}
    stranded = {(one.package, one.name) for one in blobs.bundles} - placed
    if not stranded:
        return Edit(blobs)
    kept = tuple(one for one in blobs.bundles if (one.package, one.name) not in stranded)
    gone = {(package, BUNDLE, name) for package, name in stranded}
    return Edit(replace(blobs, bundles=kept, deprecations=without_references(blobs.deprecations, gone)))


def _without(blobs: Blobs, packages: Collection[str]) -> Blobs:
    if not packages:
        return blobs
    return Blobs.from_blobs(blob for blob in blobs if not blob.package or blob.package not in packages)
