"""Rules of the validator ``crd``: printer columns and subresources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.crd_view import Crd
    from opmkit.bundle.validation.object_metadata import ValueNode

_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


@rule(
    "CRD-PRINTER-COLUMN",
    "crd",
    Severity.ERROR,
    "invalid printer column",
    hint=f"Set name, type (one of {', '.join(_TYPES)}) and a JSON path that begins with a dot.",
    bad="additionalPrinterColumns: [{name: Age, type: timestamp, jsonPath: metadata.creationTimestamp}]",
    good="additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]",
)
@crd_check
def printer_column(crd: Crd) -> Iterator[Finding]:
    """Printer columns are the columns of ``kubectl get``."""
    for columns in crd.columns.present:
        for column in columns.children():
            yield from _column_problems(column, column.child("jsonPath" if crd.is_v1 else "JSONPath", "JSONPath"))


def _column_problems(column: ValueNode, path: ValueNode) -> Iterator[Finding]:
    name, kind, form = column.child("name"), column.child("type"), column.child("format")
    if not name.text:
        yield name.finding("is empty")
    if kind.text not in _TYPES:
        yield kind.finding(f"is {kind.text!r}, not one of {', '.join(_TYPES)}")
    if form.text and form.text not in _FORMATS:
        yield form.finding(f"is {form.text!r}, not one of {', '.join(_FORMATS)}")
    if problem := _path_problem(path.text):
        yield path.finding(problem)


def _path_problem(path: str, *starts: str) -> str:
    """Return why a JSON path is invalid, or "" if it is valid; it must begin with one of ``starts``."""
    if not path:
        return "is empty"
    if not path.startswith("."):
        return f"is {path!r}, which does not begin with a dot"
    return "" if not starts or path.startswith(starts) else f"is {path!r}, which is not below {' or '.join(starts)}"


@rule(
    "CRD-SUBRESOURCES",
    "crd",
    Severity.ERROR,
    "invalid path in the scale subresource",
    hint="Set specReplicasPath to a path below .spec, labelSelectorPath to one below .spec or .status.",
    bad="subresources: {scale: {specReplicasPath: .replicas, statusReplicasPath: .status.replicas}}",
    good="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
)
@crd_check
def subresources(crd: Crd) -> Iterator[Finding]:
    """Autoscalers read and set the number of replicas through these paths."""
    for scale in _scales(crd):
        node = scale.child("specReplicasPath")
        if problem := _path_problem(node.text, ".spec."):
            yield node.finding(problem)
        selector = scale.child("labelSelectorPath")
        if selector.text and (problem := _path_problem(selector.text, ".spec.", ".status.")):
            yield selector.finding(problem)


@rule(
    "CRD-SUBRESOURCES-STATUS",
    "crd",
    Severity.ERROR,
    "invalid statusReplicasPath in the scale subresource",
    hint="Set statusReplicasPath to a path below .status.",
    bad="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .spec.replicas}}",
    good="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def subresources_status(crd: Crd) -> Iterator[Finding]:
    """Clusters reject such a CRD. The Go validators drop all findings with "status" in their path."""
    for scale in _scales(crd):
        node = scale.child("statusReplicasPath")
        if problem := _path_problem(node.text, ".status."):
            yield node.finding(problem)


def _scales(crd: Crd) -> Iterator[ValueNode]:
    for node in crd.subresources.present:
        scale = node.child("scale")
        if scale.present:
            yield scale


_TOGETHER = (
    ("validation", "schemas"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "printer columns"),
)


@rule(
    "CRD-SCHEMA-EXCLUSIVE",
    "crd",
    Severity.ERROR,
    "a v1beta1 CRD has schemas, subresources or printer columns both at the top level and in versions",
    hint="Set them either at the top level, for all versions, or in each version.",
    bad="spec: {validation: {openAPIV3Schema: {}}, versions: [{name: v1, schema: {openAPIV3Schema: {}}}]}",
    good="spec: {validation: {openAPIV3Schema: {}}, versions: [{name: v1}]}",
)
@crd_check
def schema_exclusive(crd: Crd) -> Iterator[Finding]:
    """The two settings exclude each other."""
    for versioned, (_, name) in zip((crd.schemas, crd.subresources, crd.columns), _TOGETHER, strict=True):
        if versioned.top.value not in (None, []) and any(
            node.value not in (None, []) for node in versioned.per_version
        ):
            yield versioned.top.finding(f"is set, but versions have {name} too", subject=versioned.top.field)


@rule(
    "CRD-PER-VERSION-TOP-LEVEL",
    "crd",
    Severity.ERROR,
    "all versions of a v1beta1 CRD have the same schema, subresources or printer columns",
    hint="Move them to the top level of the spec, or better, migrate the CRD to apiextensions.k8s.io/v1.",
    bad="spec: {versions: [{name: v1, subresources: {status: {}}}]}",
    good="spec: {subresources: {status: {}}, versions: [{name: v1}]}",
)
@crd_check
def per_version_top_level(crd: Crd) -> Iterator[Finding]:
    """``v1beta1`` requires settings that apply to all versions at the top level; ``v1`` has them in each version."""
    for versioned, (top, name) in zip((crd.schemas, crd.subresources, crd.columns), _TOGETHER, strict=True):
        if versioned.is_repeated:
            yield crd.spec.child("versions").finding(f"has the same {name} in each version; set spec.{top} instead")
