"""Packages of a catalog: new ones, selection, replacement, validation, and display names."""

from __future__ import annotations

import base64
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.icons import media_type_of
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.files import disk_errors, is_below, read_limited
from opmkit.documents.fields import member
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import CSV_METADATA, PACKAGE, Blobs, Icon, PackageBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.findings import raise_findings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import TypeVar

    from opmkit.documents.json_value import JsonValue
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


def validate_packages(blobs: Blobs, packages: Collection[str], compat: CatalogCompat = CatalogCompat.NEWEST) -> None:
    """Validate the named packages.

    Raises:
        InvalidCatalog: A package is invalid; the error lists all findings.
    """
    raise_findings(check_blobs(Blobs.from_blobs(blob for blob in blobs if blob.package in packages), compat))


def other_package_warnings(
    blobs: Blobs, packages: Collection[str], compat: CatalogCompat = CatalogCompat.NEWEST
) -> tuple[str, ...]:
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


MAX_FILE = 1 << 20
"""Bytes of an icon or a description."""


def create_package(
    name: str, default_channel: str = "", description: Path | None = None, icon: Path | None = None
) -> PackageBlob:
    """Create the blob of a package, with its description and icon from files.

    Raises:
        CatalogError: The icon is not an image, the description is not UTF-8, or a file is larger than `MAX_FILE`.
        DiskError: A file can't be read.
    """
    text = _read_text(description) if description else ""
    return PackageBlob(name, default_channel, _read_icon(icon) if icon else None, text)


def _read_text(path: Path) -> str:
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: not valid UTF-8: {error}", hint="Save it as UTF-8.") from error


def _read_icon(path: Path) -> Icon:
    data = _read(path)
    media_type = media_type_of(data)
    if not media_type:
        raise CatalogError(f"{path}: unsupported image format", hint="Use an SVG, PNG, JPEG or GIF file.")
    return Icon(base64.b64encode(data).decode(), media_type)


def _read(path: Path) -> bytes:
    with disk_errors(path):
        return read_limited(path, MAX_FILE, regular=is_below(path, Path.cwd()))  # /dev/stdin may be a pipe


def display_name(bundle: BundleBlob) -> str:
    """Return the display name in the ClusterServiceVersion of a bundle or in its metadata; "" if it has neither.

    Raises:
        InvalidDocument: An `olm.bundle.object` can't be decoded; a valid catalog has no such object.
    """
    for value in csv_specs(bundle):
        name = member(value, "displayName") if isinstance(value, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def csv_specs(bundle: BundleBlob) -> Iterator[JsonValue]:
    """Yield the ``spec`` of the ClusterServiceVersion, if embedded, and the value of `olm.csv.metadata`, if any.

    Raises:
        InvalidDocument: An `olm.bundle.object` can't be decoded; a valid catalog has no such object.
    """
    for value in bundle_objects(bundle):
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            yield value.get("spec")
    yield from bundle.property_values(CSV_METADATA)
