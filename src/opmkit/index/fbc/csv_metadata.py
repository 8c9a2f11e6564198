"""The property ``olm.csv.metadata``: its conversion, and the migration of embedded objects to it.

The fields, their order and which of them are omitted when empty follow ``CSVMetadata`` in operator-registry and the
types of the v1alpha1 API in operator-framework/api.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.hints import Hint
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob

    Converter: TypeAlias = Callable[[JsonValue, str], JsonValue]
    """Converts a value, whose path is the second argument."""


def csv_metadata(csv: JsonValue) -> JsonValue:
    """Return the ``olm.csv.metadata`` of a ClusterServiceVersion.

    Raises:
        InvalidBundle: A field has the wrong type.
    """
    members = fields.mapping(csv, "the ClusterServiceVersion")
    metadata = fields.mapping(members.get("metadata"), "metadata")
    spec = fields.mapping(members.get("spec"), "spec")
    result: dict[str, JsonValue] = {}
    for name, (part, key, convert) in _FIELDS.items():
        value = convert(fields.member(spec if part == "spec" else metadata, key), f"{part}.{key}")
        if value or name in _REQUIRED:
            result[name] = value
    return result


def csv_from_metadata(value: JsonValue) -> dict[str, dict[str, JsonValue]]:
    """Return the ``metadata`` and ``spec`` of a ClusterServiceVersion, as far as ``olm.csv.metadata`` has them.

    Raises:
        InvalidBundle: A field has the wrong type.
    """
    members = fields.mapping(value, "olm.csv.metadata")
    parts: dict[str, dict[str, JsonValue]] = {"metadata": {}, "spec": {}}
    for name, (part, key, convert) in _FIELDS.items():
        converted = convert(fields.member(members, name), name)
        if converted or key in _REQUIRED_IN_SPEC:
            parts[part][key] = converted
    return parts


def _boolean(value: JsonValue, path: str) -> JsonValue:
    if value is not None and not isinstance(value, bool):
        raise _wrong_type(value, path, "a boolean")
    return bool(value)


def _integer(value: JsonValue, path: str) -> JsonValue:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong_type(value, path, "an integer")
    return value or 0


def _any(value: JsonValue, _: str) -> JsonValue:
    return value


def _string_map(value: JsonValue, path: str) -> JsonValue:
    members = fields.mapping(value, path)
    return {key: fields.text(members[key], f"{path}[{key}]") for key in sorted(members)}


def _list(convert_item: Converter) -> Converter:
    def convert(value: JsonValue, path: str) -> JsonValue:
        return [convert_item(item, f"{path}[{number}]") for number, item in enumerate(fields.items(value, path))]

    return convert


def _object(required: Mapping[str, Converter], optional: Mapping[str, Converter] | None = None) -> Converter:
    """Return a converter of mappings that omits optional fields if they are empty."""

    def convert(value: JsonValue, path: str) -> JsonValue:
        members = fields.mapping(value, path)
        result = {
            name: convert_field(fields.member(members, name), f"{path}.{name}")
            for name, convert_field in required.items()
        }
        for name, convert_field in (optional or {}).items():
            field = convert_field(fields.member(members, name), f"{path}.{name}")
            if field or (convert_field is _any and any(key.lower() == name for key in members)):
                result[name] = field
        return result

    return convert


def _definitions(definitions: Converter) -> Converter:
    return _object({}, {"owned": definitions, "required": definitions})


def _wrong_type(value: JsonValue, path: str, expected: str) -> InvalidBundle:
    return InvalidBundle(f"{path} is {fields.describe(value)}, not {expected}", hint=f"Write {path} as {expected}.")


_string = fields.text
_DESCRIPTORS = _list(
    _object(
        {"path": _string},
        {"displayName": _string, "description": _string, "x-descriptors": _list(_string), "value": _any},
    )
)
_DESCRIPTION_FIELDS: Mapping[str, Converter] = {
    "displayName": _string,
    "description": _string,
    "resources": _list(_object({"name": _string, "kind": _string, "version": _string})),
    "statusDescriptors": _DESCRIPTORS,
    "specDescriptors": _DESCRIPTORS,
    "actionDescriptors": _DESCRIPTORS,
}
_CRDS = _list(_object({"name": _string, "version": _string, "kind": _string}, _DESCRIPTION_FIELDS))
_API_SERVICES = _list(
    _object(
        {"name": _string, "group": _string, "version": _string, "kind": _string},
        {"deploymentName": _string, "containerPort": _integer, **_DESCRIPTION_FIELDS},
    )
)
_LINK = _object({}, {"name": _string, "url": _string})

# The field of CSVMetadata: the part of the ClusterServiceVersion, the field there, and its converter.
_FIELDS: Mapping[str, tuple[str, str, Converter]] = {
    "annotations": ("metadata", "annotations", _string_map),
    "apiServiceDefinitions": ("spec", "apiservicedefinitions", _definitions(_API_SERVICES)),
    "crdDescriptions": ("spec", "customresourcedefinitions", _definitions(_CRDS)),
    "description": ("spec", "description", _string),
    "displayName": ("spec", "displayName", _string),
    "installModes": ("spec", "installModes", _list(_object({"type": _string, "supported": _boolean}))),
    "keywords": ("spec", "keywords", _list(_string)),
    "labels": ("metadata", "labels", _string_map),
    "links": ("spec", "links", _list(_LINK)),
    "maintainers": ("spec", "maintainers", _list(_object({}, {"name": _string, "email": _string}))),
    "maturity": ("spec", "maturity", _string),
    "minKubeVersion": ("spec", "minKubeVersion", _string),
    "nativeAPIs": ("spec", "nativeAPIs", _list(_object({"group": _string, "version": _string, "kind": _string}))),
    "provider": ("spec", "provider", _LINK),
}
_REQUIRED = ("apiServiceDefinitions", "crdDescriptions", "provider")
_REQUIRED_IN_SPEC = ("apiservicedefinitions", "customresourcedefinitions", "displayName", "provider")


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


def bundle_objects(blob: BundleBlob, *, containing: bytes = b"") -> Iterator[JsonValue]:
    """Yield the Kubernetes objects that are embedded in a bundle; those without this text are not decoded.

    Raises:
        InvalidDocument: An object can't be decoded.
    """
    for value in blob.property_values(BUNDLE_OBJECT):
        data = value.get("data") if isinstance(value, dict) else None
        try:
            content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
        except ValueError as error:
            raise InvalidDocument(f"data is not valid base64: {error}") from error
        if containing in content:
            yield read_document(content).value
