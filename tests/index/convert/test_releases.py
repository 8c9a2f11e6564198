"""Rendered bundles and catalogs in the formats of earlier releases."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from opmkit.index.convert.releases import bundle_in_release, catalog_in_release, database_in_release, migrated_index
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import (
    BUNDLE_OBJECT,
    CSV_METADATA,
    PACKAGE,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    DeprecationsBlob,
    OtherBlob,
    PackageBlob,
    SourceLocation,
)
from opmkit.index.fbc.compat import CatalogCompat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.documents.json_value import JsonValue

SUBSTITUTE = {"olm.substitutesFor": "reef.v1.0.0"}


def embed(value: Mapping[str, object]) -> BlobProperty:
    return BlobProperty(BUNDLE_OBJECT, {"data": base64.b64encode(orjson.dumps(value)).decode()})


def bundle(
    *,
    image: str = "quay.io/me/reef:1",
    version: str = "1.0.0",
    release: str = "",
    csv: Mapping[str, object] | None = None,
) -> BundleBlob:
    package: dict[str, JsonValue] = {"packageName": "reef", "version": version}
    if release:
        package["release"] = release
    document = csv or {"kind": "ClusterServiceVersion", "metadata": {}, "spec": {}}
    objects = (embed({"kind": "Service"}), embed(document))
    return BundleBlob("reef.v1.0.0", "reef", image, (BlobProperty(PACKAGE, package), *objects))


def types(blob: BundleBlob) -> list[str]:
    return [prop.type for prop in blob.properties]


OBJECTS, METADATA = [PACKAGE, BUNDLE_OBJECT, BUNDLE_OBJECT], [PACKAGE, CSV_METADATA]


@pytest.mark.parametrize(
    ("release", "expected"), [("1.27", OBJECTS), ("1.28", METADATA), ("1.45", METADATA), ("1.46", OBJECTS)]
)
def test_bundles_with_an_image_have_metadata_from_1_28_to_1_45(release: str, expected: list[str]) -> None:
    compat = CatalogCompat.parse(release)
    assert types(bundle_in_release(bundle(), compat)) == expected
    assert types(database_in_release(Blobs(bundles=(bundle(),)), compat).bundles[0]) == expected
    assert types(catalog_in_release(Blobs(bundles=(bundle(),)), compat).bundles[0]) == OBJECTS
    assert types(bundle_in_release(bundle(image=""), compat)) == OBJECTS


def test_an_invalid_csv_stays_an_object() -> None:
    invalid = bundle(csv={"kind": "ClusterServiceVersion", "spec": {"keywords": 1}})
    assert types(bundle_in_release(invalid, CatalogCompat(39))) == [PACKAGE, BUNDLE_OBJECT]
    assert types(database_in_release(Blobs(bundles=(invalid,)), CatalogCompat(39)).bundles[0]) == OBJECTS


def package_of(blob: BundleBlob, release: str) -> JsonValue:
    return bundle_in_release(blob, CatalogCompat.parse(release)).properties[0].value


def test_releases_of_bundles_exist_since_1_62() -> None:
    blob = bundle(release="2")
    assert package_of(blob, "1.61") == {"packageName": "reef", "version": "1.0.0"}
    assert package_of(blob, "1.62") == package_of(blob, "1.73") == blob.properties[0].value


def test_the_release_of_a_substitute_is_its_build_metadata_from_1_62_to_1_66() -> None:
    csv = {"kind": "ClusterServiceVersion", "metadata": {"annotations": SUBSTITUTE}}
    blob = bundle(version="1.0.0+3.p", csv=csv)
    assert package_of(blob, "1.61") == package_of(blob, "1.67") == {"packageName": "reef", "version": "1.0.0+3.p"}
    assert package_of(blob, "1.66") == {"packageName": "reef", "version": "1.0.0", "release": "3.p"}
    assert package_of(bundle(version="1.0.0+3.p"), "1.66") == {"packageName": "reef", "version": "1.0.0+3.p"}
    assert package_of(bundle(version="1.0.0", csv=csv), "1.67") == {"packageName": "reef", "version": "1.0.0"}
    with pytest.raises(InvalidCatalog, match=r'version "1\.0\.0" has no build metadata, which Go opm 1\.62 to 1\.66'):
        package_of(bundle(version="1.0.0", csv=csv), "1.62")


DEPRECATIONS = DeprecationsBlob("reef", (Deprecation(PACKAGE, "", "old"),))


@pytest.mark.parametrize(("release", "keys"), [("1.27", "schema package entries"), ("1.31", "entries package schema")])
def test_deprecations_are_custom_documents_before_1_32(release: str, keys: str) -> None:
    located = replace(DEPRECATIONS, location=SourceLocation("reef.json"))
    blobs = catalog_in_release(Blobs(deprecations=(located,)), CatalogCompat.parse(release))
    (other,) = blobs.others
    assert (blobs.deprecations, other.schema, " ".join(other.content)) == ((), "olm.deprecations", keys)
    yaml = replace(DEPRECATIONS, location=SourceLocation("reef.yaml"))
    (sorted_other,) = catalog_in_release(Blobs(deprecations=(yaml,)), CatalogCompat(26)).others
    assert list(sorted_other.content) == ["entries", "package", "schema"]
    assert catalog_in_release(Blobs(deprecations=(DEPRECATIONS,)), CatalogCompat(32)).deprecations == (DEPRECATIONS,)


def test_migrated_directories_only_contain_packages_before_1_68() -> None:
    stray = ChannelBlob("stable", "stray")
    blobs = Blobs((PackageBlob("reef"),), (stray,), (bundle(),), (DEPRECATIONS,), (OtherBlob("notes", "", "reef", {}),))
    assert migrated_index(blobs, CatalogCompat(68)) == blobs
    assert migrated_index(blobs, CatalogCompat(67)) == Blobs((PackageBlob("reef"),), (), (bundle(),))
    assert types(migrated_index(blobs, CatalogCompat(45)).bundles[0]) == METADATA
    assert types(migrated_index(blobs, CatalogCompat(29)).bundles[0]) == OBJECTS
