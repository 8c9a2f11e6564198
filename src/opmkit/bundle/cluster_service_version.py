"""Parse a ClusterServiceVersion: update graph, owned and required APIs, images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from opmkit.bundle import labels
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.model import ApiKey, ClusterServiceVersion
from opmkit.bundle.properties import ANNOTATION, annotated_properties
from opmkit.documents import fields
from opmkit.documents.json_value import is_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.model import TypedValue
    from opmkit.documents.json_value import JsonValue

_CRDS = "customresourcedefinitions"
_SERVICES = "apiservicedefinitions"


def read_csv(text: bytes, *, strict: bool = True) -> ClusterServiceVersion:
    """Parse a CSV from JSON.

    Args:
        text: The object as JSON.
        strict: If not set, the name is optional, ``replaces`` and ``skips`` are not read, and an ``olm.properties``
            annotation that is not JSON is ignored.

    Raises:
        InvalidBundle: The name or the spec is missing, or a field has the wrong type.
    """
    csv = fields.mapping(orjson.loads(text), "the ClusterServiceVersion")
    metadata = fields.mapping(csv.get("metadata"), "metadata")
    name = fields.text(metadata.get("name"), "metadata.name")
    if strict and not name:
        raise InvalidBundle("the ClusterServiceVersion has no metadata.name", hint="set a name such as op.v1.0.0")
    if csv.get("spec") is None:
        raise InvalidBundle("the ClusterServiceVersion has no spec", hint="check the indentation below spec")
    spec = fields.mapping(csv["spec"], "spec")
    annotations = _string_map(metadata, "annotations")
    _string_map(metadata, "labels")
    return ClusterServiceVersion(
        json=text,
        name=name,
        version=fields.text(spec.get("version"), "spec.version"),
        replaces=fields.text(spec.get("replaces"), "spec.replaces") if strict else "",
        skips=_skips(spec) if strict else (),
        skip_range=annotations.get("olm.skipRange", ""),
        substitutes_for=annotations.get(labels.SUBSTITUTES_FOR, ""),
        properties=_properties(annotations.get(ANNOTATION, "null"), strict=strict),
        operator_images=_operator_images(spec),
        related_images=_related_images(spec),
        owned_crds=tuple(map(_crd_api, _definitions(spec, _CRDS, "owned"))),
        required_crds=tuple(map(_crd_api, _definitions(spec, _CRDS, "required"))),
        owned_services=tuple(map(_service_api, _definitions(spec, _SERVICES, "owned"))),
        required_services=tuple(map(_service_api, _definitions(spec, _SERVICES, "required"))),
    )


def _string_map(metadata: Mapping[str, JsonValue], name: str) -> dict[str, str]:
    """Return the annotations or labels."""
    members = fields.mapping(metadata.get(name), f"metadata.{name}")
    return {key: fields.text(value, f"metadata.{name}[{key}]") for key, value in members.items()}


def _skips(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    where = "spec.skips"
    return tuple(fields.text(skip, f"an entry of {where}") for skip in fields.items(spec.get("skips"), where))


def _properties(annotation: str, *, strict: bool) -> tuple[TypedValue, ...]:
    return annotated_properties(annotation) if strict or is_json(annotation) else ()


def _definitions(spec: Mapping[str, JsonValue], section: str, side: str) -> list[dict[str, str]]:
    """Return the four strings of each API definition in ``spec.<section>.<side>``."""
    where = f"spec.{section}"
    definitions = fields.mapping(spec.get(section), where)
    found = []
    for entry in fields.items(fields.member(definitions, side), f"{where}.{side}"):
        if entry is None:
            raise InvalidBundle(f"{where}.{side} has an empty entry", hint="fill it in or remove it")
        members = fields.mapping(entry, f"an entry of {where}.{side}")
        found.append(
            {
                name: fields.text(fields.member(members, name), f"{name} in {where}.{side}")
                for name in ("group", "kind", "name", "version")
            }
        )
    return found


def _crd_api(definition: dict[str, str]) -> ApiKey:
    """Return the API of a CRD, whose name is ``PLURAL.GROUP``."""
    plural, dot, group = definition["name"].partition(".")
    if not dot:
        raise InvalidBundle(
            f"spec.{_CRDS}: invalid CRD name {definition['name']!r}: no group",
            hint="use the full name, such as things.example.com",
        )
    return ApiKey(group, definition["version"], definition["kind"], plural)


def _service_api(definition: dict[str, str]) -> ApiKey:
    return ApiKey(definition["group"], definition["version"], definition["kind"], definition["name"])


def _operator_images(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the images of the containers in the deployments of the install strategy."""
    where = "spec.install"
    install = fields.mapping(fields.member(spec, "install"), where)
    strategy = fields.text(fields.member(install, "strategy"), f"{where}.strategy")
    strategy_spec = fields.mapping(fields.member(install, "spec"), f"{where}.spec")
    deployments = fields.items(fields.member(strategy_spec, "deployments"), f"{where}.spec.deployments")
    images: list[str] = []
    for deployment in deployments:
        pod, path = fields.mapping(deployment, "a deployment"), "a deployment's "
        for name in ("spec", "template", "spec"):
            path += f".{name}"
            pod = fields.mapping(fields.member(pod, name), path)
        for name in ("containers", "initContainers"):
            images += _images(fields.items(fields.member(pod, name), f"{path}.{name}"), f"{path}.{name}")
    return tuple(dict.fromkeys(images)) if strategy == "deployment" else ()


def _related_images(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    where = "spec.relatedImages"
    return tuple(dict.fromkeys(_images(fields.items(spec.get("relatedImages"), where), where)))


def _images(entries: list[JsonValue], where: str) -> list[str]:
    """Return the image of each entry, or "" if it has none, since an index stores the empty ones as well."""
    return [
        fields.text(fields.member(fields.mapping(entry, f"an entry of {where}"), "image"), f"an image in {where}")
        for entry in entries
    ]
