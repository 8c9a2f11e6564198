"""What a ClusterServiceVersion says: its place in the update graph, the APIs it owns and requires, its images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.model import ApiKey, ClusterServiceVersion
from opmkit.bundle.properties import ANNOTATION, annotated_properties
from opmkit.bundle.raw_json import is_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.model import TypedValue

CSV_KIND = "ClusterServiceVersion"
_CRDS = "customresourcedefinitions"
_SERVICES = "apiservicedefinitions"


def read_csv(text: bytes, *, strict: bool = True) -> ClusterServiceVersion:
    """Read a CSV from its JSON.

    Without ``strict`` it needs no name, what places it in an update graph is not read, and neither is an annotation of
    properties that is no JSON.

    Raises:
        InvalidBundle: if it has no name or spec, or a field that is read has the wrong type.
    """
    csv = fields.mapping(orjson.loads(text), "the ClusterServiceVersion")
    metadata = fields.mapping(csv.get("metadata"), "metadata")
    name = fields.text(metadata.get("name"), "metadata.name")
    if strict and not name:
        raise InvalidBundle("the ClusterServiceVersion has no metadata.name", hint="Give it a name such as op.v1.0.0.")
    if csv.get("spec") is None:
        raise InvalidBundle("the ClusterServiceVersion has no spec", hint="Check the indentation below spec.")
    spec = fields.mapping(csv["spec"], "spec")
    annotations = _texts(metadata, "annotations")
    _texts(metadata, "labels")
    return ClusterServiceVersion(
        json=text,
        name=name,
        version=fields.text(spec.get("version"), "spec.version"),
        replaces=fields.text(spec.get("replaces"), "spec.replaces") if strict else "",
        skips=_skips(spec) if strict else (),
        skip_range=annotations.get("olm.skipRange", ""),
        substitutes_for=annotations.get("olm.substitutesFor", ""),
        properties=_properties(annotations.get(ANNOTATION, "null"), strict=strict),
        operator_images=_operator_images(spec),
        related_images=_related_images(spec),
        owned_crds=tuple(map(_crd_api, _definitions(spec, _CRDS, "owned"))),
        required_crds=tuple(map(_crd_api, _definitions(spec, _CRDS, "required"))),
        owned_services=tuple(map(_service_api, _definitions(spec, _SERVICES, "owned"))),
        required_services=tuple(map(_service_api, _definitions(spec, _SERVICES, "required"))),
    )


def _texts(metadata: Mapping[str, JsonValue], name: str) -> dict[str, str]:
    """Give a mapping of texts, as annotations and labels must be."""
    members = fields.mapping(metadata.get(name), f"metadata.{name}")
    return {key: fields.text(value, f"metadata.{name}[{key}]") for key, value in members.items()}


def _skips(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    where = "spec.skips"
    return tuple(fields.text(skip, f"an entry of {where}") for skip in fields.items(spec.get("skips"), where))


def _properties(annotation: str, *, strict: bool) -> tuple[TypedValue, ...]:
    return annotated_properties(annotation) if strict or is_json(annotation) else ()


def _definitions(spec: Mapping[str, JsonValue], section: str, side: str) -> list[dict[str, str]]:
    """Give the four texts of each API definition in ``spec.<section>.<side>``."""
    where = f"spec.{section}"
    definitions = fields.mapping(spec.get(section), where)
    found = []
    for entry in fields.items(fields.member(definitions, side), f"{where}.{side}"):
        if entry is None:
            raise InvalidBundle(f"{where}.{side} has an empty entry", hint="Fill it in or remove it.")
        members = fields.mapping(entry, f"an entry of {where}.{side}")
        found.append(
            {
                name: fields.text(fields.member(members, name), f"{name} in {where}.{side}")
                for name in ("group", "kind", "name", "version")
            }
        )
    return found


def _crd_api(definition: dict[str, str]) -> ApiKey:
    """Identify the API of a CRD, whose name is its plural and its group with a dot between."""
    plural, dot, group = definition["name"].partition(".")
    if not dot:
        raise InvalidBundle(
            f"spec.{_CRDS} names the CRD {definition['name']!r}, which has no group",
            hint="Give its full name, such as things.example.com.",
        )
    return ApiKey(group, definition["version"], definition["kind"], plural)


def _service_api(definition: dict[str, str]) -> ApiKey:
    return ApiKey(definition["group"], definition["version"], definition["kind"], definition["name"])


def _operator_images(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Give the images of the containers in the install strategy, if it is made of deployments."""
    where = "spec.install"
    install = fields.mapping(fields.member(spec, "install"), where)
    strategy = fields.text(fields.member(install, "strategy"), f"{where}.strategy")
    below = fields.mapping(fields.member(install, "spec"), f"{where}.spec")
    deployments = fields.items(fields.member(below, "deployments"), f"{where}.spec.deployments")
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
    """Give the image of each entry, "" where it has none, for so an index holds it."""
    return [
        fields.text(fields.member(fields.mapping(entry, f"an entry of {where}"), "image"), f"an image in {where}")
        for entry in entries
    ]
