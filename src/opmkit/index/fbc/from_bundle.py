"""Conversion of bundles to ``olm.bundle`` blobs, as Go opm renders them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.property_types import GVK, PACKAGE, REQUIRED_GVK, REQUIRED_PACKAGE
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.documents.json_value import go_float, replace_lone_surrogates
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty, BundleBlob, RelatedImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.model import Bundle, TypedValue
    from opmkit.documents.json_value import JsonValue

_GVK_FIELDS = ("group", "kind", "version")


def bundle_to_blob(bundle: Bundle) -> BundleBlob:
    """Return the `olm.bundle` of a bundle, with all its objects as properties.

    Update edges are not part of it: they belong to the entries of channels.

    Raises:
        InvalidBundle: The value of a property or dependency, or the release, is invalid.
    """
    csv = orjson.loads(bundle.csv.json)
    spec = fields.mapping(csv["spec"], "spec")
    objects = [BlobProperty(BUNDLE_OBJECT, object_value(manifest)) for manifest in bundle.objects]
    properties = sort_properties([*_provided(bundle, spec), *_required(bundle), *objects])
    images = related_images(spec)
    listed = {related.image for related in images}
    images += [RelatedImage("", image) for image in bundle.csv.operator_images if image not in listed]
    blob = BundleBlob(bundle.name, bundle.package, "", properties, sort_related_images(images))
    return with_image(blob, bundle.image)


def named_bundle_to_blob(bundle: Bundle, name: str) -> BundleBlob:
    """Return the `olm.bundle` of a bundle as `bundle_to_blob` does, with the bundle's name in errors."""
    try:
        return bundle_to_blob(bundle)
    except (InvalidBundle, FieldTypeError) as error:
        raise InvalidBundle(f"{name}: {error.message}", hint=error.hint) from error


def with_image(blob: BundleBlob, image: str) -> BundleBlob:
    """Return the blob with a bundle image, which is also added to its related images; "" removes the image."""
    images = list(blob.related_images)
    if image and all(related.image != image for related in images):
        images.append(RelatedImage("", image))
    return replace(blob, image=image, related_images=sort_related_images(images))


def sort_related_images(images: Iterable[RelatedImage]) -> tuple[RelatedImage, ...]:
    """Sort related images as they are written."""
    return tuple(sorted(images, key=lambda related: related.image))


def sort_properties(properties: Iterable[BlobProperty]) -> tuple[BlobProperty, ...]:
    """Sort properties by type and JSON text, with embedded objects and metadata last."""
    return move_objects_last(sorted(properties, key=_property_key))


def move_objects_last(properties: Iterable[BlobProperty]) -> tuple[BlobProperty, ...]:
    """Return properties in their order, except that embedded objects and metadata come last."""
    return tuple(sorted(properties, key=lambda prop: prop.type in (BUNDLE_OBJECT, CSV_METADATA)))


def unique_properties(properties: Iterable[BlobProperty]) -> Iterator[BlobProperty]:
    """Yield each distinct property once."""
    seen: set[tuple[str, str]] = set()
    for prop in properties:
        key = _property_key(prop)
        if key not in seen:
            seen.add(key)
            yield prop


def object_value(manifest: bytes) -> JsonValue:
    """Return the value of the `olm.bundle.object` property of a manifest."""
    return {"data": base64.b64encode(manifest).decode()}


def gvk_property(type_: str, value: JsonValue) -> BlobProperty:
    """Return a property that names an API.

    Raises:
        InvalidBundle: A field of ``value`` has the wrong type.
    """
    return BlobProperty(type_, {**_string_fields(value, _GVK_FIELDS, GVK)})


def package_required_property(value: JsonValue) -> BlobProperty:
    """Return the `olm.package.required` property of a dependency on a package.

    Raises:
        InvalidBundle: A field of ``value`` has the wrong type.
    """
    strings = _string_fields(value, ("packageName", "version"), PACKAGE)
    return BlobProperty(REQUIRED_PACKAGE, {"packageName": strings["packageName"], "versionRange": strings["version"]})


def related_images(spec: Mapping[str, JsonValue]) -> list[RelatedImage]:
    """Return the related images in the spec of a ClusterServiceVersion.

    Raises:
        InvalidBundle: A field has the wrong type.
    """
    path = "spec.relatedImages"
    entries = [
        _string_fields(entry, ("name", "image"), path) for entry in fields.items(spec.get("relatedImages"), path)
    ]
    return [RelatedImage(entry["name"], entry["image"]) for entry in entries]


def parse_json(text: str) -> JsonValue:
    """Parse JSON text of a database or a bundle; empty text is null.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        value: JsonValue = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        value = replace_lone_surrogates(json.loads(text))
    return value


def _provided(bundle: Bundle, spec: Mapping[str, JsonValue]) -> Iterator[BlobProperty]:
    """Yield the properties of the bundle; the last `olm.package` wins."""
    package = _package(bundle, {"packageName": bundle.package, "version": bundle.version}, spec)
    for prop in dict.fromkeys(bundle.properties):
        if prop.type == PACKAGE:
            package = _package(bundle, _parse_value(prop), spec)
        elif prop.type != GVK:
            yield BlobProperty(prop.type, _parse_value(prop))
    yield package
    apis = (prop for prop in bundle.properties if prop.type == GVK)
    yield from unique_properties(gvk_property(GVK, _parse_value(api)) for api in apis)


def _required(bundle: Bundle) -> Iterator[BlobProperty]:
    for dependency in bundle.dependencies:
        if dependency.type == PACKAGE:
            yield package_required_property(_parse_value(dependency))
        elif dependency.type != GVK:
            yield BlobProperty(dependency.type, _parse_value(dependency))
    apis = (dependency for dependency in bundle.dependencies if dependency.type == GVK)
    yield from unique_properties(gvk_property(REQUIRED_GVK, _parse_value(api)) for api in apis)


def _package(bundle: Bundle, value: JsonValue, spec: Mapping[str, JsonValue]) -> BlobProperty:
    strings = _string_fields(value, ("packageName", "version", "release"), PACKAGE)
    if not strings["release"]:
        del strings["release"]
        if strings == {"packageName": bundle.package, "version": bundle.version} and (release := _release(spec)):
            strings["release"] = release
    return BlobProperty(PACKAGE, {**strings})


def _release(spec: Mapping[str, JsonValue]) -> str:
    release = spec.get("release")
    if isinstance(release, int | float) and not isinstance(release, bool):
        return go_float(float(release))
    return fields.text(release, "spec.release")


def _parse_value(prop: TypedValue) -> JsonValue:
    if not prop.value:
        raise InvalidBundle(f"property or dependency of type {prop.type}: value is missing", hint="add its value")
    try:
        return parse_json(prop.value)
    except (ValueError, RecursionError) as error:
        raise InvalidBundle(f"property of type {prop.type}: value is not JSON: {error}") from error


def _string_fields(value: JsonValue, names: Iterable[str], kind: str) -> dict[str, str]:
    """Return string fields of a mapping, or "" for those that are absent; ``kind`` is what errors call the mapping."""
    members = fields.mapping(value, f"a value of {kind}")
    return {name: fields.text(fields.member(members, name), f"{name} in {kind}") for name in names}


def _property_key(prop: BlobProperty) -> tuple[str, str]:
    return prop.type, json.dumps(prop.value, ensure_ascii=False, separators=(",", ":"))
