"""Properties and dependencies: typed values in compact JSON, as an index stores them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.model import TypedValue
from opmkit.bundle.property_types import GVK, LABEL, PACKAGE, REFUSED_BY_OLM_V1, REQUIRED_GVK, REQUIRED_PACKAGE
from opmkit.documents import fields, json_value
from opmkit.documents.json_value import encode

if TYPE_CHECKING:
    from opmkit.bundle.model import ApiKey, Bundle

ANNOTATION = "olm.properties"
_KNOWN_TYPES = {LABEL: ("label",), PACKAGE: ("packageName", "version"), GVK: ("group", "kind", "version")}
"""Types whose values are checked, with the names of their string members."""


def package_property(package: str, version: str) -> TypedValue:
    """Return the property for the package and version of a bundle."""
    return TypedValue(PACKAGE, encode({"packageName": package, "version": version}).decode())


def gvk_value(api: ApiKey) -> TypedValue:
    """Return the property of a bundle that provides an API, which is also the dependency of one that requires it."""
    return TypedValue(GVK, encode({"group": api.group, "kind": api.kind, "version": api.version}).decode())


def refused_by_olm_v1(bundle: Bundle) -> tuple[str, ...]:
    """Return the types of a bundle's properties with which OLM v1 installs no bundle, sorted."""
    required = {PACKAGE: REQUIRED_PACKAGE, GVK: REQUIRED_GVK}
    types = {prop.type for prop in bundle.properties}
    types |= {required.get(dependency.type, dependency.type) for dependency in bundle.dependencies}
    return tuple(sorted(types.intersection(REFUSED_BY_OLM_V1)))


def annotated_properties(annotation: str) -> tuple[TypedValue, ...]:
    """Parse the ``olm.properties`` annotation of a CSV: a JSON list of ``{"type", "value"}``.

    Raises:
        InvalidBundle: The annotation is invalid, or the value of a known type is.
    """
    try:
        return tuple(_parse_property(raw) for raw in json_value.elements(annotation))
    except (ValueError, RecursionError) as error:
        raise InvalidBundle(
            f"invalid annotation {ANNOTATION}: {error}",
            hint='write it as a JSON list of {"type": "...", "value": ...}',
        ) from error


def _parse_property(raw: str) -> TypedValue:
    entry = json_value.members(raw)
    kind = fields.text(json.loads(str(fields.member(entry, "type") or "null")), f"a type in {ANNOTATION}")
    value = fields.member(entry, "value")
    if kind in _KNOWN_TYPES:
        _check_value(kind, value)
    return TypedValue(kind, json_value.compact(str(value or "null")))


def _check_value(kind: str, raw: object) -> None:
    if raw is None:
        raise InvalidBundle(f"a property of type {kind} in {ANNOTATION} has no value")
    value = fields.mapping(json.loads(str(raw)), f"the {kind} in {ANNOTATION}")
    for name in _KNOWN_TYPES[kind]:
        fields.text(fields.member(value, name), f"{name} of the {kind} in {ANNOTATION}")
