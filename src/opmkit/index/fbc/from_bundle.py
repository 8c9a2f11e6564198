"""Bundles as blobs of file-based catalogs, as the reference renders them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.json_value import go_float, replace_lone_surrogates
from opmkit.bundle.properties import GVK, PACKAGE
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, BlobProperty, BundleBlob, RelatedImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.model import Bundle, TypedValue

GVK_REQUIRED = "olm.gvk.required"
PACKAGE_REQUIRED = "olm.package.required"
_GVK_FIELDS = ("group", "kind", "version")


def bundle_to_blob(bundle: Bundle) -> BundleBlob:
    """The ``olm.bundle`` of a bundle: its name, image, properties with all its objects, and related images.

    What it replaces and skips is not in there: that belongs to the entries of channels.

    Raises:
        InvalidBundle: if a property or dependency of a known type, or the release, is none.
    """
    csv = orjson.loads(bundle.csv.json)
    spec = fields.mapping(csv["spec"], "spec")
    objects = [BlobProperty(BUNDLE_OBJECT, object_value(text)) for text in bundle.objects]
    properties = sort_properties([*_provided(bundle, spec), *_required(bundle), *objects])
    images = related_images(spec)
    named = {one.image for one in images}
    images += [RelatedImage("", image) for image in bundle.csv.operator_images if image not in named]
    blob = BundleBlob(bundle.name, bundle.package, "", properties, sort_related_images(images))
    return with_image(blob, bundle.image)


def with_image(blob: BundleBlob, image: str) -> BundleBlob:
    """The blob of the same bundle in an image, which is one of those that are related to it; "" is for none."""
    images = list(blob.related_images)
    if image and all(one.image != image for one in images):
        images.append(RelatedImage("", image))
    return replace(blob, image=image, related_images=sort_related_images(images))


def sort_related_images(images: Iterable[RelatedImage]) -> tuple[RelatedImage, ...]:
    """Related images in the order in which they are written."""
    return tuple(sorted(images, key=lambda one: one.image))


def sort_properties(properties: Iterable[BlobProperty]) -> tuple[BlobProperty, ...]:
    """Properties in order of type and text, but those with what the bundle holds at the end."""
    return move_objects_last(sorted(properties, key=lambda one: (one.type, _text(one.value))))


def move_objects_last(properties: Iterable[BlobProperty]) -> tuple[BlobProperty, ...]:
    """Properties in their order, but those with what the bundle holds at the end."""
    return tuple(sorted(properties, key=lambda one: one.type in (BUNDLE_OBJECT, CSV_METADATA)))


def unique(properties: Iterable[BlobProperty]) -> Iterator[BlobProperty]:
    """Each property once."""
    seen: set[tuple[str, str]] = set()
    for one in properties:
        key = (one.type, _text(one.value))
        if key not in seen:
            seen.add(key)
            yield one


def object_value(manifest: bytes) -> JsonValue:
    """The value of the property that holds an object of the bundle."""
    return {"data": base64.b64encode(manifest).decode()}


def gvk_property(kind: str, value: JsonValue) -> BlobProperty:
    """The property of that type that names an API; raises InvalidBundle if ``value`` names none."""
    return BlobProperty(kind, {**_texts(value, _GVK_FIELDS, GVK)})


def package_required_property(value: JsonValue) -> BlobProperty:
    """The property of a bundle that depends on a package; raises InvalidBundle if ``value`` names none."""
    found = _texts(value, ("packageName", "version"), PACKAGE)
    return BlobProperty(PACKAGE_REQUIRED, {"packageName": found["packageName"], "versionRange": found["version"]})


def related_images(spec: Mapping[str, JsonValue]) -> list[RelatedImage]:
    """The related images that the spec of a ClusterServiceVersion names; raises InvalidBundle."""
    where = "spec.relatedImages"
    entries = [_texts(entry, ("name", "image"), where) for entry in fields.items(spec.get("relatedImages"), where)]
    return [RelatedImage(entry["name"], entry["image"]) for entry in entries]


def parse_json(text: str) -> JsonValue:
    """The value that a database or a bundle holds as JSON text, "" for none; raises ValueError."""
    try:
        value: JsonValue = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        value = replace_lone_surrogates(json.loads(text))
    return value


def _provided(bundle: Bundle, spec: Mapping[str, JsonValue]) -> Iterator[BlobProperty]:
    """All that the bundle's properties say; of several packages the last counts."""
    package = _package(bundle, {"packageName": bundle.package, "version": bundle.version}, spec)
    for one in dict.fromkeys(bundle.properties):
        if one.type == PACKAGE:
            package = _package(bundle, _value(one), spec)
        elif one.type != GVK:
            yield BlobProperty(one.type, _value(one))
    yield package
    yield from unique(gvk_property(GVK, _value(one)) for one in bundle.properties if one.type == GVK)


def _required(bundle: Bundle) -> Iterator[BlobProperty]:
    for one in bundle.dependencies:
        if one.type == PACKAGE:
            yield package_required_property(_value(one))
        elif one.type != GVK:
            yield BlobProperty(one.type, _value(one))
    apis = (gvk_property(GVK_REQUIRED, _value(one)) for one in bundle.dependencies if one.type == GVK)
    yield from unique(apis)


def _package(bundle: Bundle, value: JsonValue, spec: Mapping[str, JsonValue]) -> BlobProperty:
    found = _texts(value, ("packageName", "version", "release"), PACKAGE)
    if not found["release"]:
        del found["release"]
        if found == {"packageName": bundle.package, "version": bundle.version} and (release := _release(spec)):
            found["release"] = release
    return BlobProperty(PACKAGE, {**found})


def _release(spec: Mapping[str, JsonValue]) -> str:
    release = spec.get("release")
    if isinstance(release, int | float) and not isinstance(release, bool):
        return go_float(float(release))
    return fields.text(release, "spec.release")


def _value(one: TypedValue) -> JsonValue:
    try:
        return parse_json(one.value)
    except (ValueError, RecursionError) as error:
        raise InvalidBundle(f"the value of a property of type {one.type} is no JSON: {error}") from error


def _texts(value: JsonValue, names: Iterable[str], kind: str) -> dict[str, str]:
    """The texts of these names in the value of a property, or an entry, of that kind; "" for those that it hasn't."""
    members = fields.mapping(value, f"a value of {kind}")
    return {name: fields.text(fields.member(members, name), f"{name} in {kind}") for name in names}


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
