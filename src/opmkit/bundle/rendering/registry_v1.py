"""Bundles of the format ``registry+v1``, as OLM v1 reads them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.bundle.api_types.decode import CSV, DecodeMode, decode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.labels import PACKAGE
from opmkit.bundle.properties import ANNOTATION as PROPERTIES
from opmkit.documents import lenient
from opmkit.documents.document import read_document
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import format_path
from opmkit.documents.json_value import UINT64, encode, escape_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.json_value import JsonValue

_ANNOTATIONS = "metadata/annotations.yaml"
_PROPERTIES = "metadata/properties.yaml"
_MANIFESTS = "manifests/"

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
    annotations = lenient.mapping(lenient.mapping(_read(files, _ANNOTATIONS)).get("annotations"))
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
    package = lenient.text(annotations.get(PACKAGE))
    return RegistryV1(
        package, _with_properties(csv, csv_path, files), tuple(definitions), tuple(others), csv_path, paths
    )


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
    for path in sorted(files):
        for document in read_documents(files[path]) if path.startswith(_MANIFESTS) else ():
            if isinstance(document, InvalidDocument):
                raise InvalidBundle(document.located(path), hint="correct the file")
            for value in flatten(document.value, f"{path}:{document.line}: "):
                yield path, document.line, value


def flatten(value: JsonValue, place: str = "") -> Iterator[dict[str, Any]]:
    """Yield an object, or the objects of a list; nothing for None.

    Raises:
        InvalidBundle: The value is not an object; the error begins with ``place``.
    """
    if value is None:
        return
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or not kind:
        raise InvalidBundle(f"{place}not a Kubernetes object: it has no kind", hint="remove it")
    if not _is_finite(value):
        raise InvalidBundle(f"{place}contains an infinite number", hint="correct the number")
    if kind.endswith("List") and isinstance(items := value.get("items"), list):
        for item in items:
            yield from flatten(item, place)
    else:
        yield value


def _is_finite(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


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
