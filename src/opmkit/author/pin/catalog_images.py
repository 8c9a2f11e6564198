"""Find the images in file-based catalogs and in templates for them."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from opmkit.author.pin.object_images import (
    EmbeddedFile,
    Role,
    UnpinnableUse,
    find_in_annotations,
    find_object_images,
    mapping,
    members,
    text,
    use_at,
)
from opmkit.documents.fields import format_path
from opmkit.index.fbc.blobs import BUNDLE, BUNDLE_OBJECT, CSV_METADATA
from opmkit.index.templates import basic, semver, substitutes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.author.pin.object_images import Finding
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

_ARCHETYPES = ("candidate", "fast", "stable")
_TEMPLATES = (basic.SCHEMA, substitutes.SCHEMA)


def find_catalog_images(value: JsonValue) -> Iterator[Finding]:
    """Yield the images in a document: a blob of a catalog, a template, or a Kubernetes object.

    Raises:
        InvalidField: A field has the wrong type.
    """
    if not isinstance(value, dict):
        return
    schema = value.get("schema")
    if schema == BUNDLE:
        yield from _find_in_bundle(value, ())
    elif schema == semver.SCHEMA:
        yield from _find_in_semver(value)
    elif schema in _TEMPLATES:
        for path, entry in _entries(value, "entries", ()):
            if entry.get("schema") == BUNDLE:
                yield from _find_in_bundle(entry, path)
        for path, entry in _entries(value, "substitutions", ()):
            yield from use_at(entry, _key(entry, "name"), path, Role.BUNDLE, "")
    elif schema is None and "kind" in value:
        yield from find_object_images(value)


def _find_in_bundle(blob: Mapping[str, JsonValue], path: FieldPath) -> Iterator[Finding]:
    name = text(blob.get("name"), (*path, "name"))
    yield from use_at(blob, _key(blob, "image"), path, Role.BUNDLE, name)
    for entry_path, entry in _entries(blob, "relatedImages", path):
        name = text(entry.get("name"), (*entry_path, "name"))
        yield from use_at(entry, _key(entry, "image"), entry_path, Role.RELATED_IMAGE, name)
    for entry_path, entry in _entries(blob, "properties", path):
        value_path = (*entry_path, "value")
        if entry.get("type") == CSV_METADATA:
            metadata = mapping(entry.get("value"), value_path)
            yield from find_in_annotations(metadata.get("annotations"), (*value_path, "annotations"))
        elif entry.get("type") == BUNDLE_OBJECT:
            yield from _find_in_object(entry.get("value"), value_path)


def _find_in_object(value: JsonValue, path: FieldPath) -> Iterator[Finding]:
    """Yield the file of a bundle that a property contains; one in an unknown form is skipped."""
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, str):
        return
    try:
        yield EmbeddedFile(base64.b64decode("".join(data.split()), validate=True), (*path, "data"))
    except binascii.Error:
        message = f"{format_path(path)}.data is not base64: images in it cannot be pinned"
        yield UnpinnableUse(message, (*path, "data"))


def _find_in_semver(value: Mapping[str, JsonValue]) -> Iterator[Finding]:
    for archetype in _ARCHETYPES:
        key = _key(value, archetype)
        for path, entry in _entries(mapping(value.get(key), (key,)), "bundles", (key,)):
            yield from use_at(entry, _key(entry, "image"), path, Role.BUNDLE, archetype)


def _entries(
    value: Mapping[str, JsonValue], name: str, path: FieldPath
) -> Iterator[tuple[FieldPath, Mapping[str, JsonValue]]]:
    key = _key(value, name)
    return members(value.get(key), (*path, key))


def _key(value: Mapping[str, JsonValue], name: str) -> str:
    """Return the key of a member, which may differ from its name in case, as readers of catalogs accept it."""
    return name if name in value else next((key for key in value if key.lower() == name.lower()), name)
