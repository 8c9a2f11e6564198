"""Migration of bundles: embedded objects are replaced by the property ``olm.csv.metadata``."""

from __future__ import annotations

import base64
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.hints import Hint
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty
from opmkit.index.fbc.csv_metadata import csv_metadata
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob


class MigrationLevel(StrEnum):
    """A set of migrations, as in Go opm; each level includes those before it."""

    NONE = "none"
    CSV_METADATA = "bundle-object-to-csv-metadata"
    ALL = "all"


def migrate(blobs: Blobs, level: MigrationLevel) -> Blobs:
    """Return the blobs with their bundles migrated to a level.

    Raises:
        InvalidCatalog: The ClusterServiceVersion of a bundle is invalid.
    """
    if level is MigrationLevel.NONE:
        return blobs
    return replace(blobs, bundles=tuple(map(migrate_bundle, blobs.bundles)))


def migration_level(blobs: Blobs, package: str) -> MigrationLevel:
    """Return the level of the bundles of a package, or of the whole catalog if the package has none."""
    bundles = [blob for blob in blobs.bundles if blob.package == package] or blobs.bundles
    types = {prop.type for blob in bundles for prop in blob.properties}
    is_migrated = CSV_METADATA in types and BUNDLE_OBJECT not in types
    return MigrationLevel.CSV_METADATA if is_migrated else MigrationLevel.NONE


def migrate_bundle(blob: BundleBlob) -> BundleBlob:
    """Replace the embedded objects of a bundle by the metadata of its ClusterServiceVersion.

    A bundle without an image is not changed, since its objects exist nowhere else, nor is one that has metadata.

    Raises:
        InvalidCatalog: The ClusterServiceVersion is invalid.
    """
    if not blob.image or any(True for _ in blob.property_values(CSV_METADATA)):
        return blob
    try:
        objects = bundle_objects(blob)
        csv = next((value for value in objects if isinstance(value, dict) and value.get("kind") == CSV_KIND), None)
        if csv is None:
            return blob
        metadata = BlobProperty(CSV_METADATA, csv_metadata(csv))
    except (InvalidDocument, BundleError, DocumentError) as error:
        location = f"{blob.location}: " if blob.location.file else ""
        raise InvalidCatalog(
            f'{location}bundle "{blob.name}": invalid {BUNDLE_OBJECT}: {error}',
            hint=Hint.any_of(
                "correct the bundle", Hint("keep its objects with {}", IndexSetting.MIGRATE_LEVEL.with_value("none"))
            ),
        ) from error
    others = (prop for prop in blob.properties if prop.type != BUNDLE_OBJECT)
    return replace(blob, properties=(*others, metadata))


def bundle_objects(blob: BundleBlob) -> Iterator[JsonValue]:
    """Yield the Kubernetes objects that are embedded in a bundle.

    Raises:
        InvalidDocument: An object can't be decoded.
    """
    for value in blob.property_values(BUNDLE_OBJECT):
        data = value.get("data") if isinstance(value, dict) else None
        try:
            content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
        except ValueError as error:
            raise InvalidDocument(f"data is not valid base64: {error}") from error
        yield read_document(content).value
