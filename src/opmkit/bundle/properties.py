"""Properties and dependencies: typed values in compact JSON, as an index stores them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opmkit.bundle import fields, raw_json
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.json_value import encode
from opmkit.bundle.model import TypedValue

if TYPE_CHECKING:
    from opmkit.bundle.model import ApiKey

ANNOTATION = "olm.properties"
PACKAGE = "olm.package"
GVK = "olm.gvk"

_KNOWN = {"olm.label": ("label",), PACKAGE: ("packageName", "version"), GVK: ("group", "kind", "version")}
"""The types whose values are looked at, and the texts they are made of."""


def package_property(package: str, version: str) -> TypedValue:
    """Say which version of which package a bundle is."""
    return TypedValue(PACKAGE, encode({"packageName": package, "version": version}).decode())


def gvk_value(api: ApiKey) -> TypedValue:
    """Name an API, as the property of who provides it or the dependency of who requires it."""
    return TypedValue(GVK, encode({"group": api.group, "kind": api.kind, "version": api.version}).decode())


def annotated_properties(annotation: str) -> tuple[TypedValue, ...]:
    """Read the properties in a CSV's ``olm.properties`` annotation: a JSON list of ``{"type", "value"}``.

    Raises:
        InvalidBundle: if it is no such list, or the value of a known type doesn't look like one.
    """
    try:
        return tuple(_annotated(raw) for raw in raw_json.elements(annotation))
    except (ValueError, RecursionError) as error:
        raise InvalidBundle(
            f"the annotation {ANNOTATION} can't be read: {error}",
            hint='Write it as a JSON list of {"type": "...", "value": ...}.',
        ) from error


def _annotated(raw: str) -> TypedValue:
    entry = raw_json.members(raw)
    kind = fields.text(json.loads(str(fields.member(entry, "type") or "null")), f"a type in {ANNOTATION}")
    value = fields.member(entry, "value")
    if kind in _KNOWN:
        _check(kind, value)
    return TypedValue(kind, raw_json.compact(str(value or "null")))


def _check(kind: str, raw: object) -> None:
    """Refuse a value of a known type that is missing, or not of the type's shape."""
    if raw is None:
        raise InvalidBundle(f"a property of type {kind} in {ANNOTATION} has no value")
    value = fields.mapping(json.loads(str(raw)), f"the {kind} in {ANNOTATION}")
    for name in _KNOWN[kind]:
        fields.text(fields.member(value, name), f"{name} of the {kind} in {ANNOTATION}")
