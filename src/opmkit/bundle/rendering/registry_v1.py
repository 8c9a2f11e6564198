"""Bundles of the format ``registry+v1``, as OLM v1 reads them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.bundle.api_types.decode import CSV, OBJECT, DecodeMode, decode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, PACKAGE
from opmkit.bundle.properties import ANNOTATION as PROPERTIES
from opmkit.documents import lenient
from opmkit.documents.document import read_document
from opmkit.documents.document_stream import BOM, is_json, read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import format_path
from opmkit.documents.json_value import INT64, UINT64, encode, escape_html, go_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.json_value import JsonValue

_ANNOTATIONS = "metadata/annotations.yaml"
_PROPERTIES = "metadata/properties.yaml"
_MANIFESTS = "manifests/"
_MAX_DEPTH = 200
"""Levels of nesting in an object, as in a YAML document."""

ALL_NAMESPACES = "AllNamespaces"
MULTI_NAMESPACE = "MultiNamespace"
OWN_NAMESPACE = "OwnNamespace"
SINGLE_NAMESPACE = "SingleNamespace"


class RegistryV1(Struct, frozen=True, dict=True):
    """The content of a bundle.

    Attributes:
        package: Name of the package, which may be "".
        csv: The ClusterServiceVersion, with known fields only.
        definitions: The CustomResourceDefinitions, with known fields only, in the order of the files.
        others: The other objects, as they are.
        csv_path: The file of the ClusterServiceVersion.
        paths: The files of the other objects, by kind and name.
    """

    package: str
    csv: Mapping[str, Any]
    definitions: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()
    csv_path: str = ""
    paths: Mapping[tuple[str, str], str] = {}

    @property
    def name(self) -> str:
        """Name of the ClusterServiceVersion."""
        return str(self.csv.get("metadata", {}).get("name", ""))

    @property
    def spec(self) -> Mapping[str, Any]:
        """``spec`` of the ClusterServiceVersion."""
        found: Mapping[str, Any] = self.csv.get("spec", {})
        return found

    @property
    def strategy(self) -> Mapping[str, Any]:
        """The install strategy: deployments, permissions and cluster permissions."""
        found: Mapping[str, Any] = self.spec.get("install", {}).get("spec", {})
        return found

    @property
    def webhooks(self) -> list[Mapping[str, Any]]:
        """The webhook definitions."""
        return list(self.spec.get("webhookdefinitions") or ())

    @property
    def owned_definitions(self) -> list[str]:
        """Names of the CustomResourceDefinitions that the ClusterServiceVersion owns."""
        owned = self.spec.get("customresourcedefinitions", {}).get("owned") or ()
        return [str(each.get("name", "")) for each in owned]

    @cached_property
    def install_modes(self) -> frozenset[str]:
        """The supported install modes."""
        modes = self.spec.get("installModes") or ()
        return frozenset(str(mode.get("type", "")) for mode in modes if mode.get("supported"))


def read_registry_v1(files: Mapping[str, bytes]) -> RegistryV1:
    """Read a bundle from its files, given by their paths.

    All documents of the files directly in ``manifests/`` count, also those of hidden files, and lists are taken apart.
    Properties of ``metadata/properties.yaml`` are added to the annotation ``olm.properties``.

    Raises:
        InvalidBundle: A file is missing, or contains no object or one with a value of the wrong type; the error names
            file and line.
    """
    if _ANNOTATIONS not in files:
        raise InvalidBundle(f"{_ANNOTATIONS}: no such file", hint="add the annotations of the bundle")
    package = _read_package(files)
    csv: Mapping[str, Any] | None = None
    csv_path = ""
    definitions: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    paths: dict[tuple[str, str], str] = {}
    _require_flat(files)
    for path, line, value in read_objects(files):
        kind = str(value["kind"])
        if kind == CSV_KIND:
            csv, csv_path = _decode(value, CSV, path, line), path
            continue
        if kind == CRD_KIND:
            definitions.append(_decode(value, CRD_KIND, path, line))
        else:
            others.append(value)
        paths[kind, object_name(value)] = path
    if csv is None:
        raise InvalidBundle(f"no {CSV_KIND} found in {_MANIFESTS}", hint=f"add a {CSV_KIND} to the manifests directory")
    return RegistryV1(
        package, _with_properties(csv, csv_path, files), tuple(definitions), tuple(others), csv_path, paths
    )


def _read_package(files: Mapping[str, bytes]) -> str:
    """Return the package in the annotations, whose values can be scalars of any type."""
    annotations = lenient.mapping(lenient.mapping(_read(files, _ANNOTATIONS)).get("annotations"))
    texts = {label: lenient.scalar_text(annotations.get(label)) for label in (PACKAGE, CHANNELS, DEFAULT_CHANNEL)}
    for label, text in texts.items():
        if text is None:
            raise InvalidBundle(f"{_ANNOTATIONS}: annotations.{label} is not a string", hint="write a string")
    return texts[PACKAGE] or ""


def _require_flat(files: Mapping[str, bytes]) -> None:
    for path in sorted(files):
        if path.startswith(_MANIFESTS) and "/" in path.removeprefix(_MANIFESTS):
            hint = f"move its files to {_MANIFESTS}: OLM v1 reads no directories below it"
            raise InvalidBundle(f"{path}: the file is in a subdirectory of {_MANIFESTS}", hint=hint)


def object_name(value: Mapping[str, Any]) -> str:
    """Return the name of an object, or "" if it has none."""
    return lenient.text(lenient.mapping(value.get("metadata")).get("name"))


def _read(files: Mapping[str, bytes], path: str) -> JsonValue:
    try:
        return read_document(files[path]).value
    except InvalidDocument as error:
        raise InvalidBundle(error.located(path), hint="correct the file") from error


def read_objects(files: Mapping[str, bytes]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield path, line and value of each object in the files of a bundle.

    Raises:
        InvalidBundle: A file contains no object.
    """
    for path in filter(lambda path: path.startswith(_MANIFESTS), sorted(files)):
        if files[path].startswith(BOM) and is_json(files[path]):  # OLM would read it as YAML, and only its first object
            raise InvalidBundle(f"{path}:1: byte order mark before JSON", hint="remove the byte order mark")
        for document in read_documents(files[path]):
            if isinstance(document, InvalidDocument):
                raise InvalidBundle(document.located(path), hint="correct the file")
            for value in flatten(document.value, f"{path}:{document.line}: "):
                yield path, document.line, value


def flatten(value: JsonValue, place: str = "") -> Iterator[dict[str, Any]]:
    """Yield an object, or the objects of a list, with the numbers that OLM reads; nothing for None.

    An object with ``items`` is a list for OLM v1, whatever its kind, but not for OLM v0, so its kind must be that of a
    list. Items without kind and apiVersion get those of the list.

    Raises:
        InvalidBundle: The value is not an object, or its metadata have the wrong type; the error begins with ``place``.
    """
    if value is None:
        return
    try:
        kind, _ = _type_of(value := _with_go_numbers(value))
    except ValueError as error:
        raise InvalidBundle(f"{place}{error}", hint="correct or remove it") from error
    assert isinstance(value, dict)  # noqa: S101 - checked by _type_of, for mypy
    for mismatch in decode_struct(value, OBJECT, DecodeMode.OBJECT).mismatches:
        message = f"{place}{kind} {object_name(value)}: {format_path(mismatch.path)} {mismatch.problem}"
        raise InvalidBundle(message, hint=mismatch.hint or "correct the value")
    if "items" not in value:
        yield _without_empty_namespace(value)
        return
    if not kind.endswith("List"):
        message = f"{place}a {kind} with items: OLM v0 reads an object of this kind, OLM v1 a list of objects"
        raise InvalidBundle(message, hint="remove items, or write a document for each object")
    items = value["items"]
    if not isinstance(items, list | None):
        raise InvalidBundle(f"{place}items is not a list", hint="write a list")
    for number, item in enumerate(items or ()):
        yield _list_item(item, value, f"{place}items[{number}]: ")


def _list_item(item: JsonValue, parent: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return an object of a list."""
    try:
        if not isinstance(item, dict | None):
            raise ValueError("not a Kubernetes object: not a mapping")
        item = dict(item or {})
        if not lenient.text(item.get("kind")) and not lenient.text(item.get("apiVersion")):
            item |= {"kind": parent["kind"].removesuffix("List"), "apiVersion": lenient.text(parent.get("apiVersion"))}
        _, version = _type_of(item)
        if not version:
            raise ValueError("an object of a list must have an apiVersion")
        if isinstance(item.get("items"), list):
            raise ValueError("a list in a list")
    except ValueError as error:
        raise InvalidBundle(f"{place}{error}", hint="write a document for each object") from error
    return _without_empty_namespace(item)


def _without_empty_namespace(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without ``metadata.namespace`` if that is not a name."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or "namespace" not in metadata or lenient.text(metadata["namespace"]):
        return value
    return {**value, "metadata": {key: member for key, member in metadata.items() if key != "namespace"}}


def _type_of(value: JsonValue) -> tuple[str, str]:
    """Return the kind and the version of an object; raise ValueError if it has no kind or an invalid apiVersion."""
    kind = lenient.text(value.get("kind")) if isinstance(value, dict) else ""
    if not isinstance(value, dict) or not kind:
        raise ValueError("not a Kubernetes object: it has no kind")
    api_version = lenient.text(value.get("apiVersion"))
    if api_version.count("/") > 1:
        raise ValueError(f"invalid apiVersion {api_version!r}: more than one slash")
    return kind, api_version.rpartition("/")[2]


def _with_go_numbers(value: JsonValue, depth: int = 0) -> JsonValue:
    """Return the value with whole numbers of 64 bits as integers, others as floats.

    Go writes numbers as JSON and reads them again, so 1.0 is an integer.

    Raises:
        ValueError: For an infinite number, and for more than _MAX_DEPTH levels of nesting.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels of nesting")
    if isinstance(value, dict):
        return {key: _with_go_numbers(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_go_numbers(item, depth + 1) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if not math.isfinite(value):
        raise ValueError("contains an infinite number")
    text = go_float(value) if isinstance(value, float) else str(value)
    return int(text) if text.lstrip("-").isdecimal() and int(text) in INT64 else float(value)


def _decode(value: Mapping[str, Any], struct: str, path: str, line: int) -> Mapping[str, Any]:
    decoded = decode_struct(dict(value), struct, DecodeMode.OBJECT)
    for mismatch in decoded.mismatches:
        message = f"{path}:{line}: {struct} {object_name(value)}: {format_path(mismatch.path)} {mismatch.problem}"
        raise InvalidBundle(message, hint=mismatch.hint or "correct the value")
    return decoded.value


def _with_properties(csv: Mapping[str, Any], path: str, files: Mapping[str, bytes]) -> Mapping[str, Any]:
    """Return a ClusterServiceVersion whose annotation has the properties of the metadata directory, too."""
    metadata = csv.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    known = _known_properties(annotations, path)
    if not files.get(_PROPERTIES):
        return csv
    added = lenient.mapping(_read(files, _PROPERTIES)).get("properties")
    if not isinstance(added, list | None):
        raise InvalidBundle(f"{_PROPERTIES}: properties is not a list", hint="write a list")
    try:
        normalized = [
            {**item, "value": orjson.Fragment(encode(item.get("value"), UINT64))}
            for item in map(lenient.mapping, added or ())
        ]
    except ValueError as error:
        raise InvalidBundle(f"{_PROPERTIES}: {error}", hint="correct the value") from error
    properties = [*map(lenient.mapping, known), *normalized]
    items = [{"type": item.get("type", ""), "value": item.get("value")} for item in properties]
    text = escape_html(orjson.dumps(items or None)).decode()
    return {**csv, "metadata": {**metadata, "annotations": {**annotations, PROPERTIES: text}}}


def _known_properties(annotations: Mapping[str, str], path: str) -> list[Any]:
    """Return the properties in the annotation of a ClusterServiceVersion."""
    try:
        found = orjson.loads(annotations[PROPERTIES]) if PROPERTIES in annotations else []
    except orjson.JSONDecodeError as error:
        raise InvalidBundle(f"{path}: annotation {PROPERTIES} is not JSON: {error}", hint="correct it") from error
    if not isinstance(found, list | None):
        raise InvalidBundle(f"{path}: annotation {PROPERTIES} is not a list", hint="write a list")
    return found or []
