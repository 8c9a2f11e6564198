"""Levels of migration: how much of today's form is given to the bundles of a catalog that is rendered."""

from __future__ import annotations

import base64
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import BundleError, InvalidDocument
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty
from opmkit.index.fbc.csv_metadata import csv_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob


class MigrationLevel(StrEnum):
    """A level does all that those before it do; ``ALL`` is the last one there is."""

    NONE = "none"
    CSV_METADATA = "bundle-object-to-csv-metadata"
    ALL = "all"


def migrate(blobs: Blobs, level: MigrationLevel) -> Blobs:
    """The blobs with their bundles at a level.

    Raises:
        InvalidCatalog: for a bundle whose ClusterServiceVersion can't be read.
    """
    if level is MigrationLevel.NONE:
        return blobs
    return replace(blobs, bundles=tuple(map(migrate_bundle, blobs.bundles)))


def migration_level(blobs: Blobs, package: str) -> MigrationLevel:
    """The level that the bundles of a package are at; those of the catalog, where it has none."""
    own = [blob for blob in blobs.bundles if blob.package == package] or blobs.bundles
    types = {one.type for blob in own for one in blob.properties}
    return MigrationLevel.CSV_METADATA if CSV_METADATA in types and BUNDLE_OBJECT not in types else MigrationLevel.NONE


def migrate_bundle(blob: BundleBlob) -> BundleBlob:
    """The blob with metadata of its ClusterServiceVersion in place of all objects.

    One without an image keeps them, for they are nowhere else, and one that has such metadata is left as it is. Raises
    InvalidCatalog.
    """
    if not blob.image or any(True for _ in blob.property_values(CSV_METADATA)):
        return blob
    try:
        csv = next(
            (value for value in bundle_objects(blob) if isinstance(value, dict) and value.get("kind") == CSV_KIND), None
        )
        if csv is None:
            return blob
        metadata = BlobProperty(CSV_METADATA, csv_metadata(csv))
    except (InvalidDocument, BundleError) as error:
        where = f"{blob.location}: " if blob.location.file else ""
        raise InvalidCatalog(
            f'{where}bundle "{blob.name}" has an {BUNDLE_OBJECT} that can\'t be read: {error}',
            hint=Hint.any_of(
                "correct the bundle", Hint("keep its objects with {}", Setting.MIGRATE_LEVEL.with_value("none"))
            ),
        ) from error
    kept = (one for one in blob.properties if one.type != BUNDLE_OBJECT)
    return replace(blob, properties=(*kept, metadata))


def bundle_objects(blob: BundleBlob) -> Iterator[JsonValue]:
    """The Kubernetes objects that a bundle's blob holds; raises InvalidDocument for one that can't be read."""
    for value in blob.property_values(BUNDLE_OBJECT):
        data = value.get("data") if isinstance(value, dict) else None
        try:
            content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
        except ValueError as error:
            raise InvalidDocument(f"its data is no base64: {error}") from error
        yield read_document(content).value
