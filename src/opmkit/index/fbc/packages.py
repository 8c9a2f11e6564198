"""Catalogs package by package: taking out the blobs of some, and putting them back changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import PACKAGE, Blobs
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import raise_findings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import TypeVar

    from opmkit.index.fbc.blobs import Blob, BundleBlob

    B = TypeVar("B", bound=Blob)

_TOLD = 20
"""How many faults of other packages are told."""


def select_packages(blobs: Blobs, names: Collection[str]) -> dict[str, Blobs]:
    """The blobs of each of these packages, in order; none for one that the catalog does not have."""
    found: defaultdict[str, list[Blob]] = defaultdict(list)
    for blob in blobs:
        if blob.package in names:
            found[blob.package].append(blob)
    return {name: Blobs.from_blobs(found[name]) for name in names}


def replace_packages(blobs: Blobs, changed: Mapping[str, Blobs]) -> Blobs:
    """The catalog with these packages as they are given; each keeps its place, a new one comes at the end."""
    return Blobs(
        tuple(_merged(blobs.packages, {name: parts.packages for name, parts in changed.items()})),
        tuple(_merged(blobs.channels, {name: parts.channels for name, parts in changed.items()})),
        tuple(_merged(blobs.bundles, {name: parts.bundles for name, parts in changed.items()})),
        tuple(_merged(blobs.deprecations, {name: parts.deprecations for name, parts in changed.items()})),
        tuple(_merged(blobs.others, {name: parts.others for name, parts in changed.items()})),
    )


def _merged(before: Iterable[B], changed: Mapping[str, Iterable[B]]) -> Iterator[B]:
    waiting = dict(changed)
    for blob in before:
        if blob.package not in changed:
            yield blob
        elif blob.package in waiting:
            yield from waiting.pop(blob.package)
    for blobs in waiting.values():
        yield from blobs


def validate_packages(blobs: Blobs, packages: Collection[str], compat: Compat = Compat.NEWEST) -> None:
    """Raise InvalidCatalog with all that is wrong with these packages, if anything is."""
    raise_findings(check_blobs(Blobs.from_blobs(blob for blob in blobs if blob.package in packages), compat))


def other_package_warnings(blobs: Blobs, packages: Collection[str], compat: Compat = Compat.NEWEST) -> tuple[str, ...]:
    """What is wrong with the graphs, names and versions of other packages, as warnings: these can be changed anyhow."""
    others = Blobs.from_blobs(blob for blob in blobs if blob.package not in packages)
    faults = check_blobs(replace(others, bundles=tuple(map(_outline, others.bundles))), compat)
    more = len(faults) - _TOLD
    told = tuple(map(str, faults[:_TOLD]))
    return (*told, f"and {more} more findings: validate the catalog to list them") if more > 0 else told


def _outline(bundle: BundleBlob) -> BundleBlob:
    """A bundle without what takes long to judge: its objects, APIs and related images, if it has an image."""
    if not bundle.image:
        return bundle
    properties = tuple(one for one in bundle.properties if one.type == PACKAGE)
    return replace(bundle, properties=properties, related_images=())
