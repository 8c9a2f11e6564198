"""Taking packages out of a catalog, and bundles that are in no channel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.catalog.blobs import BUNDLE, Blobs
from opmkit.index.catalog.edit.deprecations import without_references
from opmkit.index.catalog.edit.values import Edit
from opmkit.index.remove import unknown_packages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def without_packages(blobs: Blobs, names: Sequence[str], *, permissive: bool = False) -> Edit:
    """Take out packages, with all that belongs to them, of whatever schema; empty names count for nothing.

    All or nothing, unless ``permissive``: then packages that are not there are told as ``failures``. A name given
    twice is not there the second time.

    Raises:
        UnknownPackage: the catalog lacks some of the packages.
    """
    known = sorted({blob.package for blob in blobs if blob.package})
    wanted = [name for name in names if name]
    unknown = [name for number, name in enumerate(wanted) if name not in known or name in wanted[:number]]
    if not unknown:
        return Edit(_without(blobs, wanted))
    error = unknown_packages(unknown, known)
    if not permissive:
        raise error
    return Edit(_without(blobs, wanted), failures=(error,))


def with_only_packages(blobs: Blobs, names: Collection[str]) -> Edit:
    """Take out all packages but these, which need not be there; what belongs to no package stays."""
    return Edit(_without(blobs, {blob.package for blob in blobs if blob.package}.difference(names)))


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
    return Blobs.of(blob for blob in blobs if not blob.package or blob.package not in packages)
