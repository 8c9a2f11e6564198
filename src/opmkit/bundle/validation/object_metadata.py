"""Validation of object metadata, by the rules of ``ValidateObjectMeta`` in k8s.io/apimachinery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opmkit.bundle.finding import Finding
from opmkit.bundle.kubernetes_names import label_value, qualified_name
from opmkit.documents import fields
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, members, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


class Gvk(NamedTuple):
    """Group, version and kind of an API; the group is "" for the core group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return the text that Kubernetes tools print: ``example.com/v1, Kind=Demo``."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @classmethod
    def parse(cls, api_version: str, kind: str) -> Gvk | None:
        """Return the API of an object, or None if ``api_version`` has more than one slash."""
        if api_version.count("/") > 1:
            return None
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def group_kind(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.kind


def crd_group(name: str) -> str | None:
    """Return the group in the name of a CRD, which is ``PLURAL.GROUP``, or None if there is none."""
    _, dot, group = name.partition(".")
    return group if dot else None


MAX_ANNOTATIONS = 256 * 1024
"""Maximum size of all keys and values of an object's annotations in bytes."""

_METADATA: FieldPath = ("metadata",)
_MAX_MANAGER = 128
_MAX_SUBRESOURCE = 256
_EVENT = ("v1", "Event")
_DELETION_FINALIZERS = {"orphan", "foregroundDeletion"}


def metadata_findings(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the problems of an object's metadata, with the object's name or else the field as the subject.

    Lists and mappings of strings are skipped if a value has the wrong type, which another rule reports.
    """
    name = text(metadata.get("name"))
    for path, problem in _problems(metadata):
        field = format_path(path)
        yield Finding(f"{field} {problem}", path=path, subject=name or field)


def _problems(metadata: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    if not text(metadata.get("name")):
        yield (*_METADATA, "name"), "is missing"
    if namespace := text(metadata.get("namespace")):
        yield (*_METADATA, "namespace"), f"is {namespace!r}, but objects of a bundle must not have a namespace"
    generation = metadata.get("generation")
    if isinstance(generation, int) and generation < 0:
        yield (*_METADATA, "generation"), f"is {generation}, less than 0"
    yield from _label_problems(_strings(metadata.get("labels")))
    yield from _annotation_problems(_strings(metadata.get("annotations")))
    yield from _owner_problems(metadata.get("ownerReferences"))
    yield from _finalizer_problems(metadata.get("finalizers"))
    yield from _managed_field_problems(metadata.get("managedFields"))


def _strings(value: object) -> Mapping[str, str]:
    members = mapping(value)
    return members if all(isinstance(member, str) for member in members.values()) else {}


def _label_problems(labels: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    for key, value in labels.items():
        path = (*_METADATA, "labels", key)
        for problem in qualified_name(key):
            yield path, f"has an invalid key: {problem}"
        for problem in label_value(value):
            yield path, f"is {value!r}: {problem}"


def _annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    for key in annotations:
        for problem in qualified_name(key.lower()):
            yield (*_METADATA, "annotations", key), f"has an invalid key: {problem}"
    size = sum(len(part.encode(errors="surrogatepass")) for pair in annotations.items() for part in pair)
    if size > MAX_ANNOTATIONS:
        yield (*_METADATA, "annotations"), f"has {size} bytes, more than the limit of {MAX_ANNOTATIONS}"


def _owner_problems(value: object) -> Iterator[tuple[FieldPath, str]]:
    controllers = 0
    for path, owner in members(value, (*_METADATA, "ownerReferences")):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not text(owner.get(field)):
                yield (*path, field), "is empty"
        if (owner.get("apiVersion"), owner.get("kind")) == _EVENT:
            yield path, "is an Event, which cannot be an owner"
        controllers += owner.get("controller") is True
        if controllers > 1 and owner.get("controller") is True:
            yield (*path, "controller"), "is true for a second owner, but only one can be the controller"


def _finalizer_problems(value: object) -> Iterator[tuple[FieldPath, str]]:
    finalizers = items(value)
    if not all(isinstance(finalizer, str) for finalizer in finalizers):
        return
    base = (*_METADATA, "finalizers")
    for number, finalizer in enumerate(finalizers):
        for problem in qualified_name(finalizer):
            yield (*base, number), f"is {finalizer!r}: {problem}"
    if set(finalizers) >= _DELETION_FINALIZERS:
        yield base, "has both orphan and foregroundDeletion, which exclude each other"


def _managed_field_problems(value: object) -> Iterator[tuple[FieldPath, str]]:
    for path, entry in members(value, (*_METADATA, "managedFields")):
        if entry.get("operation") not in ("Apply", "Update"):
            yield (*path, "operation"), "is not Apply or Update"
        if text(entry.get("fieldsType")) not in ("", "FieldsV1"):
            yield (*path, "fieldsType"), "is not FieldsV1"
        manager = text(entry.get("manager"))
        if len(manager) > _MAX_MANAGER or not manager.isprintable():
            yield (*path, "manager"), f"is longer than {_MAX_MANAGER} characters or has non-printable characters"
        if len(text(entry.get("subresource"))) > _MAX_SUBRESOURCE:
            yield (*path, "subresource"), f"is longer than {_MAX_SUBRESOURCE} characters"


class ValueNode(Struct, frozen=True):
    """A value of any type, None if absent, and its ``path`` in the document.

    ``field`` is the path in the notation of Kubernetes. The API server can store the value in another field.
    """

    value: JsonValue
    path: FieldPath = ()
    field: str = ""

    def child(self, name: str, field: str = "") -> ValueNode:
        """Return the member with this name, ignoring case if there is none; ``field`` is its name in the API server."""
        field = field or name
        value = fields.member(mapping(self.value), name)
        return ValueNode(value, (*self.path, name), f"{self.field}.{field}" if self.field else field)

    def children(self) -> Iterator[ValueNode]:
        """Yield the items of a list."""
        for number, item in enumerate(items(self.value)):
            yield ValueNode(item, (*self.path, number), f"{self.field}[{number}]")

    def at(self, *steps: str | int) -> ValueNode:
        """Return the value at a path of names and indexes."""
        node = self
        for step in steps:
            node = node.child(step) if isinstance(step, str) else node._item(step)
        return node

    def _item(self, number: int) -> ValueNode:
        item = items(self.value)[number : number + 1]
        return ValueNode(item[0] if item else None, (*self.path, number), f"{self.field}[{number}]")

    @property
    def present(self) -> bool:
        """Whether the value is neither absent nor null."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value as a string, or "" if it is not a scalar."""
        return scalar_text(self.value) or ""

    @property
    def texts(self) -> list[str]:
        """The items of a list as strings."""
        return [node.text for node in self.children()]

    @property
    def where(self) -> str:
        """The path as text, such as ``spec.versions[0].name``."""
        return format_path(self.path)

    def finding(self, problem: str, *, subject: str = "") -> Finding:
        """Return a finding about this value; by default, the subject is the value if it is a string, or the field."""
        value = self.value if isinstance(self.value, str) else ""
        return Finding(f"{self.where} {problem}", path=self.path, subject=subject or value or self.field)

    def name_findings(self, problems: list[str]) -> Iterator[Finding]:
        """Yield one finding if there are problems with this name."""
        if problems:
            yield self.finding(f"is {self.text!r}: {', and '.join(problems)}")
