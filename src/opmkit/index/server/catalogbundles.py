"""Bundles of file-based catalogs as messages: what is said of a bundle itself, apart from its place in a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle import goyaml
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.jsonvalue import encode
from opmkit.index.api import message_class
from opmkit.index.catalog import blobs as kinds
from opmkit.index.catalog.bundlecheck import from_base64
from opmkit.index.catalog.csvmetadata import csv_of_metadata
from opmkit.index.catalog.write import writable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.jsonvalue import JsonValue
    from opmkit.index.catalog.blobs import BlobProperty, BundleBlob, PackageBlob

_BUNDLE, _API = message_class("Bundle"), message_class("GroupVersionKind")
_PROPERTY, _DEPENDENCY = message_class("Property"), message_class("Dependency")
_DEPRECATION = message_class("Deprecation")

GVK = "olm.gvk"
_GVK_REQUIRED = "olm.gvk.required"
_PACKAGE_REQUIRED = "olm.package.required"
_CSV_KIND = "ClusterServiceVersion"
_TOLD_OTHERWISE = (kinds.BUNDLE_OBJECT, kinds.CSV_METADATA)
"""Properties that are told as manifests. Clusters copy the others to where there is little room."""


def facts(bundle: BundleBlob, deprecation: str | None) -> bytes:
    """The part that tells of a bundle all but its manifests; ``deprecation`` is why it is deprecated."""
    return _serialised(
        csvName=bundle.name,
        bundlePath=bundle.image,
        version=_text(bundle.values(kinds.PACKAGE), "version"),
        providedApis=list(map(_api, bundle.values(GVK))),
        requiredApis=list(map(_api, bundle.values(_GVK_REQUIRED))),
        dependencies=[_DEPENDENCY(type=kind, value=value) for kind, value in _dependencies(bundle.properties)],
        properties=[
            _PROPERTY(type=one.type, value=compact(one.value))
            for one in bundle.properties
            if one.type not in _TOLD_OTHERWISE
        ],
        deprecation=None if deprecation is None else _DEPRECATION(message=deprecation),
    )


def manifests(bundle: BundleBlob, package: PackageBlob) -> bytes:
    """The part with the manifests that the catalog holds; of what ``olm.csv.metadata`` tells, one is made up."""
    objects = list(map(_object, bundle.values(kinds.BUNDLE_OBJECT)))
    csv = next(filter(_is_csv, objects), "")
    told = next(bundle.values(kinds.CSV_METADATA), None)
    if not csv and isinstance(told, dict):
        csv = encode(_shown_csv(told, bundle, package)).decode()
        objects = objects or [csv]
    return _serialised(csvJson=csv, object=objects)


def compact(value: JsonValue) -> str:
    """JSON without blanks, with sorted keys."""
    return orjson.dumps(writable(value), option=orjson.OPT_SORT_KEYS).decode()


def api_key(value: object) -> tuple[str, str, str]:
    """Group, version and kind of an API."""
    members = value if isinstance(value, dict) else {}
    group, version, kind = (members.get(name, "") for name in ("group", "version", "kind"))
    return str(group), str(version), str(kind)


def _serialised(**fields: Any) -> bytes:
    message: bytes = _BUNDLE(**fields).SerializeToString()
    return message


def _api(value: JsonValue) -> Any:
    group, version, kind = api_key(value)
    return _API(group=group, version=version, kind=kind)


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
    raw = (from_base64(data) if isinstance(data, str) else None) or b""
    try:
        return raw.decode() if raw.lstrip().startswith(b"{") else encode(goyaml.load(raw)).decode()
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
    parts = csv_of_metadata(told)
    spec = parts["spec"] | {
        "install": {"strategy": "deployment", "spec": {"deployments": None}},
        "version": _text(bundle.values(kinds.PACKAGE), "version"),
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
