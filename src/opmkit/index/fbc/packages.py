"""Selection, replacement and validation of single packages of a catalog."""

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

_MAX_WARNINGS = 20


def select_packages(blobs: Blobs, names: Collection[str]) -> dict[str, Blobs]:
    """Return the blobs of each named package, in their order; no blobs for unknown packages."""
    by_package: defaultdict[str, list[Blob]] = defaultdict(list)
    for blob in blobs:
        if blob.package in names:
            by_package[blob.package].append(blob)
    return {name: Blobs.from_blobs(by_package[name]) for name in names}


def replace_packages(blobs: Blobs, changed: Mapping[str, Blobs]) -> Blobs:
    """Replace the blobs of packages at the position of their first blob; append those of new packages."""
    return Blobs(
        tuple(_merge(blobs.packages, {name: package.packages for name, package in changed.items()})),
        tuple(_merge(blobs.channels, {name: package.channels for name, package in changed.items()})),
        tuple(_merge(blobs.bundles, {name: package.bundles for name, package in changed.items()})),
        tuple(_merge(blobs.deprecations, {name: package.deprecations for name, package in changed.items()})),
        tuple(_merge(blobs.others, {name: package.others for name, package in changed.items()})),
    )


def _merge(before: Iterable[B], changed: Mapping[str, Iterable[B]]) -> Iterator[B]:
    pending = dict(changed)
    for blob in before:
        if blob.package not in changed:
            yield blob
        elif blob.package in pending:
            yield from pending.pop(blob.package)
    for blobs in pending.values():
        yield from blobs


def validate_packages(blobs: Blobs, packages: Collection[str], compat: Compat = Compat.NEWEST) -> None:
    """Validate the named packages.

    Raises:
        InvalidCatalog: A package is invalid; the error lists all findings.
    """
    raise_findings(check_blobs(Blobs.from_blobs(blob for blob in blobs if blob.package in packages), compat))


def other_package_warnings(blobs: Blobs, packages: Collection[str], compat: Compat = Compat.NEWEST) -> tuple[str, ...]:
    """Return the errors in graphs, names and versions of packages other than the named ones, as warnings."""
    others = Blobs.from_blobs(blob for blob in blobs if blob.package not in packages)
    findings = check_blobs(replace(others, bundles=tuple(map(_without_details, others.bundles))), compat)
    warnings = tuple(map(str, findings[:_MAX_WARNINGS]))
    more = len(findings) - _MAX_WARNINGS
    return (*warnings, f"and {more} more findings: validate the catalog to list them") if more > 0 else warnings


def _without_details(bundle: BundleBlob) -> BundleBlob:
    """Remove the parts of a bundle with an image that take long to check: objects, APIs and related images."""
    if not bundle.image:
        return bundle
    properties = tuple(prop for prop in bundle.properties if prop.type == PACKAGE)
    return replace(bundle, properties=properties, related_images=())
