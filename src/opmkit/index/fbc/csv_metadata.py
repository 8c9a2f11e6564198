"""The value of ``olm.csv.metadata``: what consoles show of a bundle, without the objects that only clusters need.

The fields are those of the type ``CSVMetadata`` of operator-registry, and below them those of OLM's v1alpha1 API, in
the order of these types; what is empty is left out where they say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.bundle.json_value import JsonValue

    Shape: TypeAlias = Callable[[JsonValue, str], JsonValue]
    """Reads a value, found where the text says, in the form in which it is written."""


def csv_metadata(csv: JsonValue) -> JsonValue:
    """The metadata of a ClusterServiceVersion; raises InvalidBundle where a field has the wrong type."""
    members = fields.mapping(csv, "the ClusterServiceVersion")
    metadata = fields.mapping(members.get("metadata"), "metadata")
    spec = fields.mapping(members.get("spec"), "spec")
    found: dict[str, JsonValue] = {}
    for name, (source, key, shape) in _FIELDS.items():
        value = shape(fields.member(spec if source == "spec" else metadata, key), f"{source}.{key}")
        if value or name in _ALWAYS:
            found[name] = value
    return found


def csv_from_metadata(told: JsonValue) -> dict[str, dict[str, JsonValue]]:
    """The parts ``metadata`` and ``spec`` of a ClusterServiceVersion with what its metadata tell.

    Raises:
        InvalidBundle: where a field has the wrong type.
    """
    members = fields.mapping(told, "olm.csv.metadata")
    parts: dict[str, dict[str, JsonValue]] = {"metadata": {}, "spec": {}}
    for name, (source, key, shape) in _FIELDS.items():
        value = shape(fields.member(members, name), name)
        if value or key in _ALWAYS_IN_SPEC:
            parts[source][key] = value
    return parts


def _truth(value: JsonValue, where: str) -> JsonValue:
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, where, "a boolean")
    return bool(value)


def _integer(value: JsonValue, where: str) -> JsonValue:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong(value, where, "a whole number")
    return value or 0


def _anything(value: JsonValue, _: str) -> JsonValue:
    return value


def _texts(value: JsonValue, where: str) -> JsonValue:
    members = fields.mapping(value, where)
    return {key: fields.text(members[key], f"{where}[{key}]") for key in sorted(members)}


def _list(shape: Shape) -> Shape:
    def read(value: JsonValue, where: str) -> JsonValue:
        return [shape(item, f"{where}[{number}]") for number, item in enumerate(fields.items(value, where))]

    return read


def _object(always: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """A mapping with all fields of the first kind, and those of the second that are not empty."""

    def read(value: JsonValue, where: str) -> JsonValue:
        members = fields.mapping(value, where)
        found = {name: shape(fields.member(members, name), f"{where}.{name}") for name, shape in always.items()}
        for name, shape in (optional or {}).items():
            one = shape(fields.member(members, name), f"{where}.{name}")
            if one or (shape is _anything and any(key.lower() == name for key in members)):
                found[name] = one
        return found

    return read


def _definitions(shape: Shape) -> Shape:
    return _object({}, {"owned": shape, "required": shape})


def _wrong(value: JsonValue, where: str, wanted: str) -> InvalidBundle:
    return InvalidBundle(f"{where} is {fields.describe(value)}, not {wanted}", advice=f"Write {where} as {wanted}.")


_text = fields.text
_DESCRIPTORS = _list(
    _object(
        {"path": _text},
        {"displayName": _text, "description": _text, "x-descriptors": _list(_text), "value": _anything},
    )
)
_DESCRIBED: Mapping[str, Shape] = {
    "displayName": _text,
    "description": _text,
    "resources": _list(_object({"name": _text, "kind": _text, "version": _text})),
    "statusDescriptors": _DESCRIPTORS,
    "specDescriptors": _DESCRIPTORS,
    "actionDescriptors": _DESCRIPTORS,
}
_CRDS = _list(_object({"name": _text, "version": _text, "kind": _text}, _DESCRIBED))
_SERVICES = _list(
    _object(
        {"name": _text, "group": _text, "version": _text, "kind": _text},
        {"deploymentName": _text, "containerPort": _integer, **_DESCRIBED},
    )
)
_LINK = _object({}, {"name": _text, "url": _text})

_FIELDS: Mapping[str, tuple[str, str, Shape]] = {
    "annotations": ("metadata", "annotations", _texts),
    "apiServiceDefinitions": (
        "spec",
        "apiservicedefinitions",
        _definitions(_SERVICES),
    ),
    "crdDescriptions": ("spec", "customresourcedefinitions", _definitions(_CRDS)),
    "description": ("spec", "description", _text),
    "displayName": ("spec", "displayName", _text),
    "installModes": ("spec", "installModes", _list(_object({"type": _text, "supported": _truth}))),
    "keywords": ("spec", "keywords", _list(_text)),
    "labels": ("metadata", "labels", _texts),
    "links": ("spec", "links", _list(_LINK)),
    "maintainers": ("spec", "maintainers", _list(_object({}, {"name": _text, "email": _text}))),
    "maturity": ("spec", "maturity", _text),
    "minKubeVersion": ("spec", "minKubeVersion", _text),
    "nativeAPIs": ("spec", "nativeAPIs", _list(_object({"group": _text, "version": _text, "kind": _text}))),
    "provider": ("spec", "provider", _LINK),
}
_ALWAYS = ("apiServiceDefinitions", "crdDescriptions", "provider")
_ALWAYS_IN_SPEC = ("apiservicedefinitions", "customresourcedefinitions", "displayName", "provider")
