"""The metadata of objects, as an API server judges it for objects outside of namespaces.

After ``ValidateObjectMeta`` of k8s.io/apimachinery: one fault for each thing that it would complain about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding
from opmkit.bundle.kubernetes_names import label_value, qualified_name
from opmkit.bundle.lenient import items, mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath

MAX_ANNOTATIONS = 256 * 1024
"""Bytes that the keys and values of all annotations of an object may have."""

_METADATA: FieldPath = ("metadata",)
_MAX_MANAGER = 128
_MAX_SUBRESOURCE = 256
_EVENT = ("v1", "Event")
_DELETIONS = {"orphan", "foregroundDeletion"}


def metadata_findings(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with an object's metadata; the subject of each fault is the object's name, else the field.

    A map or list with a value that is no text is passed over, for its type is another matter.
    """
    name = text(metadata.get("name"))
    for path, problem in _problems(metadata):
        where = format_path(path)
        yield Finding(f"{where} {problem}", path=path, subject=name or where)


def _problems(metadata: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    if not text(metadata.get("name")):
        yield (*_METADATA, "name"), "is missing"
    if namespace := text(metadata.get("namespace")):
        yield (*_METADATA, "namespace"), f"is {namespace!r}, but a bundle is installed in any namespace"
    generation = metadata.get("generation")
    if isinstance(generation, int) and generation < 0:
        yield (*_METADATA, "generation"), f"is {generation}, less than 0"
    yield from _labels(_texts(metadata.get("labels")))
    yield from _annotations(_texts(metadata.get("annotations")))
    yield from _owners(metadata.get("ownerReferences"))
    yield from _finalizers(metadata.get("finalizers"))
    yield from _managed(metadata.get("managedFields"))


def _texts(value: object) -> Mapping[str, str]:
    found = mapping(value)
    return found if all(isinstance(one, str) for one in found.values()) else {}


def _labels(labels: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    for key, value in labels.items():
        path = (*_METADATA, "labels", key)
        for problem in qualified_name(key):
            yield path, f"has a key that is misspelt: {problem}"
        for problem in label_value(value):
            yield path, f"is {value!r}, which is misspelt: {problem}"


def _annotations(annotations: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    for key in annotations:
        for problem in qualified_name(key.lower()):
            yield (*_METADATA, "annotations", key), f"has a key that is misspelt: {problem}"
    size = sum(len(part.encode(errors="surrogatepass")) for pair in annotations.items() for part in pair)
    if size > MAX_ANNOTATIONS:
        yield (*_METADATA, "annotations"), f"has {size} bytes, but may have {MAX_ANNOTATIONS} at most"


def _owners(value: object) -> Iterator[tuple[FieldPath, str]]:
    controllers = 0
    base = (*_METADATA, "ownerReferences")
    for path, owner in members(value, base):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not text(owner.get(field)):
                yield (*path, field), "is empty"
        if (owner.get("apiVersion"), owner.get("kind")) == _EVENT:
            yield path, "is an Event, which can't own anything"
        controllers += owner.get("controller") is True
        if controllers > 1 and owner.get("controller") is True:
            yield (*path, "controller"), "is true for a second owner, but one alone may be the controller"


def _finalizers(value: object) -> Iterator[tuple[FieldPath, str]]:
    finalizers = items(value)
    if not all(isinstance(one, str) for one in finalizers):
        return
    base = (*_METADATA, "finalizers")
    for number, finalizer in enumerate(finalizers):
        for problem in qualified_name(finalizer):
            yield (*base, number), f"is {finalizer!r}, which is misspelt: {problem}"
    if set(finalizers) >= _DELETIONS:
        yield base, "has both orphan and foregroundDeletion, which exclude each other"


def _managed(value: object) -> Iterator[tuple[FieldPath, str]]:
    for path, entry in members(value, (*_METADATA, "managedFields")):
        if entry.get("operation") not in ("Apply", "Update"):
            yield (*path, "operation"), "is neither Apply nor Update"
        if text(entry.get("fieldsType")) not in ("", "FieldsV1"):
            yield (*path, "fieldsType"), "is not FieldsV1"
        manager = text(entry.get("manager"))
        if len(manager) > _MAX_MANAGER or not manager.isprintable():
            yield (*path, "manager"), f"is longer than {_MAX_MANAGER} characters, or has some that can't be printed"
        if len(text(entry.get("subresource"))) > _MAX_SUBRESOURCE:
            yield (*path, "subresource"), f"is longer than {_MAX_SUBRESOURCE} characters"
