"""Encoding of bundles as JSON documents of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.documents import yaml_decoder
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.json_value import encode, escape_html
from opmkit.index.fbc import blobs as kinds
from opmkit.index.fbc.csv_metadata import csv_from_metadata
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.write import with_go_numbers
from opmkit.index.grpc_api import message_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob, EntryBlob, PackageBlob

_FIELDS = tuple(field.name for field in message_class("Bundle").DESCRIPTOR.fields)
GVK = "olm.gvk"
_GVK_REQUIRED = "olm.gvk.required"
_PACKAGE_REQUIRED = "olm.package.required"
_CSV_KIND = "ClusterServiceVersion"
_MANIFEST_PROPERTIES = (kinds.BUNDLE_OBJECT, kinds.CSV_METADATA)
"""Properties with manifests, which have their own fields. Clusters copy the other properties to size-limited fields."""


def common_fields(bundle: BundleBlob, package: PackageBlob, deprecation: str | None) -> dict[str, Any]:
    """Return the fields of a bundle that are the same in each channel, as JSON has them.

    Args:
        bundle: The bundle.
        package: Its package, for the ClusterServiceVersion made from ``olm.csv.metadata``.
        deprecation: The deprecation message of the bundle, or None if it is not deprecated.
    """
    objects = list(map(_manifest, bundle.property_values(kinds.BUNDLE_OBJECT)))
    csv = next(filter(_is_csv, objects), "")
    metadata = next(bundle.property_values(kinds.CSV_METADATA), None)
    if not csv and isinstance(metadata, dict):
        csv = encode(_csv_from_metadata(metadata, bundle, package)).decode()
        objects = objects or [csv]
    return {
        "csvName": bundle.name,
        "csvJson": csv,
        "object": objects,
        "bundlePath": bundle.image,
        "providedApis": list(map(_api, bundle.property_values(GVK))),
        "requiredApis": list(map(_api, bundle.property_values(_GVK_REQUIRED))),
        "version": _first_member(bundle.property_values(kinds.PACKAGE), "version"),
        "dependencies": [{"type": kind, "value": value} for kind, value in _dependencies(bundle.properties)],
        "properties": [
            {"type": each.type, "value": compact_json(each.value)}
            for each in bundle.properties
            if each.type not in _MANIFEST_PROPERTIES
        ],
        "deprecation": None if deprecation is None else {"message": deprecation},
    }


def bundle_document(common: Mapping[str, Any], package: str, channel: str, entry: EntryBlob) -> bytes:
    """Return a bundle in a channel as a JSON document of Go's ``api.Bundle``."""
    fields = {
        **common,
        "packageName": package,
        "channelName": channel,
        "skipRange": entry.skip_range,
        "replaces": entry.replaces,
        "skips": entry.skips,
    }
    return escape_html(orjson.dumps({name: fields[name] for name in _FIELDS if fields[name]}))


def compact_json(value: JsonValue) -> str:
    """Return JSON without whitespace, with sorted keys."""
    return orjson.dumps(with_go_numbers(value), option=orjson.OPT_SORT_KEYS).decode()


def _api(value: JsonValue) -> dict[str, str]:
    """Return the group, version and kind of an API, without empty ones."""
    members = value if isinstance(value, dict) else {}
    return {name: str(members[name]) for name in ("group", "version", "kind") if members.get(name)}


def _first_member(values: Iterable[JsonValue], name: str) -> str:
    """Return a member of the first value, or "" if there is none."""
    value = next(iter(values), None)
    return str(value.get(name, "")) if isinstance(value, dict) else ""


def _dependencies(properties: Iterable[BlobProperty]) -> Iterable[tuple[str, str]]:
    """Yield the type and value of each dependency in the properties."""
    for each in properties:
        if each.type == _GVK_REQUIRED:
            yield GVK, compact_json(each.value)
        elif each.type == _PACKAGE_REQUIRED and isinstance(each.value, dict):
            package, version = each.value.get("packageName", ""), each.value.get("versionRange", "")
            yield kinds.PACKAGE, compact_json({"packageName": package, "version": version})


def _manifest(value: JsonValue) -> str:
    """Return the manifest in a property as JSON, or "" if it is invalid, which the check of the catalog reports."""
    data = value.get("data") if isinstance(value, dict) else None
    raw = (decode_base64(data) if isinstance(data, str) else None) or b""
    try:
        return raw.decode() if raw.lstrip().startswith(b"{") else encode(yaml_decoder.load(raw)).decode()
    except (ValueError, InvalidDocument):
        return ""


def _is_csv(text: str) -> bool:
    if _CSV_KIND not in text:  # much faster than parsing, and enough for most manifests
        return False
    try:
        document = orjson.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == _CSV_KIND


def _csv_from_metadata(metadata: JsonValue, bundle: BundleBlob, package: PackageBlob) -> dict[str, JsonValue]:
    """Return a ClusterServiceVersion for user interfaces from the property ``olm.csv.metadata``.

    It has all fields that the type in Go always writes, which clients may require.
    """
    parts = csv_from_metadata(metadata)
    spec = parts["spec"] | {
        "install": {"strategy": "deployment", "spec": {"deployments": None}},
        "version": _first_member(bundle.property_values(kinds.PACKAGE), "version"),
        "cleanup": {"enabled": False},
    }
    if package.icon:
        spec["icon"] = [{"base64data": package.icon.data, "mediatype": package.icon.media_type}]
    if bundle.related_images:
        spec["relatedImages"] = [{"name": each.name, "image": each.image} for each in bundle.related_images]
    if not spec.get("description") and package.description:
        spec["description"] = package.description
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": _CSV_KIND,
        "metadata": {"name": bundle.name, **parts["metadata"]},
        "spec": spec,
        "status": {"cleanup": {}},
    }
