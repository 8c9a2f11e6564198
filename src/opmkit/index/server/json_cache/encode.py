"""Bundles of file-based catalogs as the JSON documents of operator-registry's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle import go_yaml
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.json_value import encode, escape_html
from opmkit.index.api.messages import message_class
from opmkit.index.fbc import blobs as kinds
from opmkit.index.fbc.base64text import decode_base64
from opmkit.index.fbc.csv_metadata import csv_from_metadata
from opmkit.index.fbc.write import with_go_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob, EntryBlob, PackageBlob

_FIELDS = tuple(field.name for field in message_class("Bundle").DESCRIPTOR.fields)
GVK = "olm.gvk"
_GVK_REQUIRED = "olm.gvk.required"
_PACKAGE_REQUIRED = "olm.package.required"
_CSV_KIND = "ClusterServiceVersion"
_MANIFEST_PROPERTIES = (kinds.BUNDLE_OBJECT, kinds.CSV_METADATA)
"""Properties that are answered as manifests. Clusters copy the others to where there is little room."""


def common_fields(bundle: BundleBlob, package: PackageBlob, deprecation: str | None) -> dict[str, Any]:
    """Return the fields of a bundle that are the same in each channel, as JSON has them.

    Args:
        bundle: the bundle.
        package: its package, for the ClusterServiceVersion made from ``olm.csv.metadata``.
        deprecation: the reason why the bundle is deprecated, or None if it is not.
    """
    objects = list(map(_object, bundle.property_values(kinds.BUNDLE_OBJECT)))
    csv = next(filter(_is_csv, objects), "")
    metadata = next(bundle.property_values(kinds.CSV_METADATA), None)
    if not csv and isinstance(metadata, dict):
        csv = encode(_shown_csv(metadata, bundle, package)).decode()
        objects = objects or [csv]
    return {
        "csvName": bundle.name,
        "csvJson": csv,
        "object": objects,
        "bundlePath": bundle.image,
        "providedApis": list(map(_api, bundle.property_values(GVK))),
        "requiredApis": list(map(_api, bundle.property_values(_GVK_REQUIRED))),
        "version": _text(bundle.property_values(kinds.PACKAGE), "version"),
        "dependencies": [{"type": kind, "value": value} for kind, value in _dependencies(bundle.properties)],
        "properties": [
            {"type": one.type, "value": compact(one.value)}
            for one in bundle.properties
            if one.type not in _MANIFEST_PROPERTIES
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


def compact(value: JsonValue) -> str:
    """JSON without blanks, with sorted keys."""
    return orjson.dumps(with_go_numbers(value), option=orjson.OPT_SORT_KEYS).decode()


def _api(value: JsonValue) -> dict[str, str]:
    """Return the group, version and kind of an API, as far as they are not empty."""
    members = value if isinstance(value, dict) else {}
    return {name: str(members[name]) for name in ("group", "version", "kind") if members.get(name)}


def _text(values: Iterable[JsonValue], name: str) -> str:
    value = next(iter(values), None)
    return str(value.get(name, "")) if isinstance(value, dict) else ""


def _dependencies(properties: Iterable[BlobProperty]) -> Iterable[tuple[str, str]]:
    for one in properties:
        if one.type == _GVK_REQUIRED:
            yield GVK, compact(one.value)
        elif one.type == _PACKAGE_REQUIRED and isinstance(one.value, dict):
            wanted = {"packageName": one.value.get("packageName", ""), "version": one.value.get("versionRange", "")}
            yield kinds.PACKAGE, compact(wanted)


def _object(value: JsonValue) -> str:
    """The manifest in a property, as JSON; "" for what is none, which checking the catalog has told."""
    data = value.get("data") if isinstance(value, dict) else None
    raw = (decode_base64(data) if isinstance(data, str) else None) or b""
    try:
        return raw.decode() if raw.lstrip().startswith(b"{") else encode(go_yaml.load(raw)).decode()
    except (ValueError, InvalidDocument):
        return ""


def _is_csv(text: str) -> bool:
    if _CSV_KIND not in text:  # most others can be told by that, much sooner
        return False
    try:
        document = orjson.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == _CSV_KIND


def _shown_csv(told: JsonValue, bundle: BundleBlob, package: PackageBlob) -> dict[str, JsonValue]:
    """A ClusterServiceVersion of what the catalog tells of one, enough for who shows it to people.

    It has all the fields that the type in Go always writes, for readers that count on them.
    """
    parts = csv_from_metadata(told)
    spec = parts["spec"] | {
        "install": {"strategy": "deployment", "spec": {"deployments": None}},
        "version": _text(bundle.property_values(kinds.PACKAGE), "version"),
        "cleanup": {"enabled": False},
    }
    if package.icon:
        spec["icon"] = [{"base64data": package.icon.data, "mediatype": package.icon.media_type}]
    if bundle.related_images:
        spec["relatedImages"] = [{"name": one.name, "image": one.image} for one in bundle.related_images]
    if not spec.get("description") and package.description:
        spec["description"] = package.description
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": _CSV_KIND,
        "metadata": {"name": bundle.name, **parts["metadata"]},
        "spec": spec,
        "status": {"cleanup": {}},
    }
