"""Versions of the bundles of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.versions import VersionKey, VersionRange, strict_version, version_key
from opmkit.documents.fields import member
from opmkit.index.fbc.blobs import PACKAGE
from opmkit.index.fbc.findings import CatalogFinding, raise_findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.fbc.blobs import BundleBlob

MIN_VERSION_KEY = version_key(strict_version("0.0.0"))
"""The key of bundles that the catalog does not contain."""


def version_text(bundle: BundleBlob) -> str:
    """Return the version of a bundle.

    Raises:
        ValueError: It does not have exactly one property with a version.
    """
    values = list(bundle.property_values(PACKAGE))
    if len(values) != 1:
        raise ValueError(f"{len(values)} properties of type {PACKAGE} instead of one")
    version = member(values[0], "version") if isinstance(values[0], dict) else None
    if not isinstance(version, str):
        raise ValueError(f"property of type {PACKAGE} without a version")
    return version


def version_keys(bundles: Iterable[BundleBlob], *, lenient: bool = False) -> dict[str, VersionKey]:
    """Return the version keys of bundles by name; of several bundles with one name the first is used.

    Args:
        bundles: The bundles.
        lenient: Whether to omit bundles without a valid version.

    Raises:
        InvalidCatalog: Bundles have no valid version; the error lists all of them.
    """
    keys: dict[str, VersionKey] = {}
    findings: list[CatalogFinding] = []
    for bundle in bundles:
        if bundle.name not in keys:
            try:
                keys[bundle.name] = version_key(strict_version(version_text(bundle)))
            except ValueError as error:
                finding = CatalogFinding(f"invalid version: {error}", package=bundle.package, bundle=bundle.name)
                findings.append(finding.at(bundle.location))
    if not lenient:
        raise_findings(findings)
    return keys


def parse_range(text: str) -> VersionRange:
    """Parse a version range of which no alternative is empty.

    Raises:
        ValueError: The range is invalid.
    """
    parsed = VersionRange.parse(text)
    if not parsed.is_complete:
        raise ValueError("an alternative is empty")
    return parsed
