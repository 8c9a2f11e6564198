"""Rendered bundles and catalogs in the formats of earlier releases of Go opm."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from opmkit.bundle import labels
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.property_types import PACKAGE
from opmkit.documents.document_stream import sort_keys
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, DEPRECATIONS, BlobProperty, OtherBlob
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.csv_metadata import MigrationLevel, bundle_objects, migrate, migrate_bundle
from opmkit.index.fbc.from_bundle import object_value, sort_properties
from opmkit.index.fbc.write import blob_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, DeprecationsBlob


def bundle_in_release(blob: BundleBlob, compat: CatalogCompat) -> BundleBlob:
    """Return a bundle, whose objects are in the order of its files, in the format of a release.

    Raises:
        InvalidCatalog: The release rejects the bundle.
    """
    if compat.has(ReleaseChange.SORTED_CONTENT):
        blob = replace(blob, properties=sort_properties(blob.properties))
    if not compat.has(ReleaseChange.RELEASES):
        blob = _without_release(blob)
    elif not compat.has(ReleaseChange.NO_DERIVED_RELEASES):
        blob = _with_derived_release(blob)
    if not _renders_metadata(compat):
        return blob
    migrated = _migrate_if_valid(blob)
    return _with_csv_only(blob) if migrated is blob and blob.image else migrated


def with_objects(blob: BundleBlob, objects: Iterable[bytes]) -> BundleBlob:
    """Return a bundle with other embedded objects, in their order."""
    others = (prop for prop in blob.properties if prop.type != BUNDLE_OBJECT)
    embedded = (BlobProperty(BUNDLE_OBJECT, object_value(manifest)) for manifest in objects)
    return replace(blob, properties=(*others, *embedded))


def database_in_release(blobs: Blobs, compat: CatalogCompat) -> Blobs:
    """Return the blobs of an index database in the format of a release."""
    if not _renders_metadata(compat):
        return blobs
    return replace(blobs, bundles=tuple(map(_migrate_if_valid, blobs.bundles)))


def catalog_in_release(blobs: Blobs, compat: CatalogCompat) -> Blobs:
    """Return the blobs of a file-based catalog in the format of a release."""
    if not compat.has(ReleaseChange.SORTED_CONTENT):
        blobs = replace(blobs, bundles=tuple(map(_move_objects_last, blobs.bundles)))
    if compat.has(ReleaseChange.DEPRECATIONS):
        return blobs
    others = (_as_other(blob, sort=compat.has(ReleaseChange.SORTED_CONTENT)) for blob in blobs.deprecations)
    return replace(blobs, deprecations=(), others=(*blobs.others, *others))


def migrated_index(blobs: Blobs, compat: CatalogCompat) -> Blobs:
    """Return the blobs that a release writes to the directory of a migrated index.

    Raises:
        InvalidCatalog: The ClusterServiceVersion of a bundle is invalid.
    """
    if compat.has(ReleaseChange.MIGRATE) and not compat.has(ReleaseChange.BUNDLE_OBJECTS):
        blobs = migrate(blobs, MigrationLevel.ALL)
    if compat.has(ReleaseChange.COMPLETE_MIGRATION):
        return blobs
    names = {package.name for package in blobs.packages}
    return replace(
        blobs,
        channels=tuple(blob for blob in blobs.channels if blob.package in names),
        bundles=tuple(blob for blob in blobs.bundles if blob.package in names),
        deprecations=(),
        others=(),
    )


def _renders_metadata(compat: CatalogCompat) -> bool:
    return compat.has(ReleaseChange.CSV_METADATA) and not compat.has(ReleaseChange.BUNDLE_OBJECTS)


def _migrate_if_valid(blob: BundleBlob) -> BundleBlob:
    """Return a bundle with metadata instead of objects; the same if a field of the CSV has the wrong type."""
    from opmkit.bundle.api_types.decode import CSV, DecodeMode, decode_struct  # slow to import

    csv = _csv(blob, *blob.properties)
    if csv is None or decode_struct(csv, CSV, DecodeMode.REWRITTEN).mismatches:
        return blob
    with suppress(InvalidCatalog):
        return migrate_bundle(blob)
    return blob


def _with_csv_only(blob: BundleBlob) -> BundleBlob:
    """Return a bundle without embedded objects of other kinds."""
    kept = (prop for prop in blob.properties if prop.type != BUNDLE_OBJECT or _csv(blob, prop) is not None)
    return replace(blob, properties=tuple(kept))


def _csv(blob: BundleBlob, *properties: BlobProperty) -> dict[str, JsonValue] | None:
    """Return the ClusterServiceVersion that is embedded in properties of a bundle, if any."""
    with suppress(InvalidDocument):
        for value in bundle_objects(replace(blob, properties=properties)):
            if isinstance(value, dict) and value.get("kind") == CSV_KIND:
                return value
    return None


def _without_release(blob: BundleBlob) -> BundleBlob:
    return replace(blob, properties=tuple(map(_drop_release, blob.properties)))


def _drop_release(prop: BlobProperty) -> BlobProperty:
    if prop.type != PACKAGE or not isinstance(prop.value, dict):
        return prop
    return structs.replace(prop, value={key: value for key, value in prop.value.items() if key != "release"})


def _with_derived_release(blob: BundleBlob) -> BundleBlob:
    """Return a bundle that substitutes another with the build metadata of its version as the release."""
    metadata = member(_csv(blob, *blob.properties) or {}, "metadata")
    annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or not annotations.get(labels.SUBSTITUTES_FOR):
        return blob
    return replace(blob, properties=tuple(_derive_release(blob, prop) for prop in blob.properties))


def _derive_release(blob: BundleBlob, prop: BlobProperty) -> BlobProperty:
    if prop.type != PACKAGE or not isinstance(prop.value, dict) or "release" in prop.value:
        return prop
    version, plus, release = str(prop.value["version"]).partition("+")
    if not plus:
        raise InvalidCatalog(
            f'bundle "{blob.name}": version "{version}" has no build metadata, which Go opm '
            f"1.{ReleaseChange.RELEASES.minor} to 1.{ReleaseChange.NO_DERIVED_RELEASES.minor - 1} requires of a "
            f"bundle with {labels.SUBSTITUTES_FOR}",
            hint="match another release of Go opm, or add build metadata to the version",
        )
    return structs.replace(prop, value={**prop.value, "version": version, "release": release})


def _move_objects_last(blob: BundleBlob) -> BundleBlob:
    """Move embedded objects behind other properties, including the metadata of the ClusterServiceVersion."""
    return replace(blob, properties=tuple(sorted(blob.properties, key=lambda prop: prop.type == BUNDLE_OBJECT)))


def _as_other(blob: DeprecationsBlob, *, sort: bool) -> OtherBlob:
    """Return deprecations as a custom document; one read from YAML has sorted keys in any case."""
    content = blob_to_dict(blob)
    if sort or not blob.location.file.endswith(".json"):
        content = {key: sort_keys(content[key]) for key in sorted(content)}
    return OtherBlob(DEPRECATIONS, "", blob.package, content, blob.location)
