"""Rules of the validator ``crd`` on what versions have besides schemas: printer columns and subresources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.crd_view import Crd
    from opmkit.bundle.validation.node import Node

_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


@rule(
    "CRD-PRINTER-COLUMN",
    "crd",
    Severity.ERROR,
    "a printer column of a CRD is incomplete, or of an unknown type or format",
    hint=f"Give name, type (one of {', '.join(_TYPES)}) and a JSON path that begins with a dot.",
    bad="additionalPrinterColumns: [{name: Age, type: timestamp, jsonPath: metadata.creationTimestamp}]",
    good="additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]",
)
@crd_check
def printer_column(crd: Crd) -> Iterator[Finding]:
    """The columns are what ``kubectl get`` shows of the objects."""
    for columns in crd.columns.written:
        for column in columns.children():
            yield from _column_problems(column, column.child("jsonPath" if crd.is_v1 else "JSONPath", "JSONPath"))


def _column_problems(column: Node, path: Node) -> Iterator[Finding]:
    name, kind, form = column.child("name"), column.child("type"), column.child("format")
    if not name.text:
        yield name.finding("is empty")
    if kind.text not in _TYPES:
        yield kind.finding(f"is {kind.text!r}, none of {', '.join(_TYPES)}")
    if form.text and form.text not in _FORMATS:
        yield form.finding(f"is {form.text!r}, none of {', '.join(_FORMATS)}")
    if problem := _path_problem(path.text):
        yield path.finding(problem)


def _path_problem(path: str, *starts: str) -> str:
    """What is wrong with a JSON path, which must begin with one of the texts."""
    if not path:
        return "is empty"
    if not path.startswith("."):
        return f"is {path!r}, which does not begin with a dot"
    return "" if not starts or path.startswith(starts) else f"is {path!r}, which is not below {' or '.join(starts)}"


@rule(
    "CRD-SUBRESOURCES",
    "crd",
    Severity.ERROR,
    "the scale subresource of a CRD has a path that is missing or elsewhere than it must be",
    hint="Set specReplicasPath to a path below .spec, labelSelectorPath to one below .spec or .status.",
    bad="subresources: {scale: {specReplicasPath: .replicas, statusReplicasPath: .status.replicas}}",
    good="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
)
@crd_check
def subresources(crd: Crd) -> Iterator[Finding]:
    """Autoscalers read and set the number of replicas by these paths."""
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
    "the scale subresource of a CRD has a path to the replicas there are that is missing or not below .status",
    hint="Set statusReplicasPath to a path below .status.",
    bad="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .spec.replicas}}",
    good="subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def subresources_status(crd: Crd) -> Iterator[Finding]:
    """Clusters refuse such a CRD. The references drop the fault, as they drop all that has "status" in its path."""
    for scale in _scales(crd):
        node = scale.child("statusReplicasPath")
        if problem := _path_problem(node.text, ".status."):
            yield node.finding(problem)


def _scales(crd: Crd) -> Iterator[Node]:
    for part in crd.subresources.written:
        scale = part.child("scale")
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
    "a v1beta1 CRD has schemas, subresources or printer columns both at the top and in versions",
    hint="Keep them either at the top, for all versions, or in each version.",
    bad="spec: {validation: {openAPIV3Schema: {}}, versions: [{name: v1, schema: {openAPIV3Schema: {}}}]}",
    good="spec: {validation: {openAPIV3Schema: {}}, versions: [{name: v1}]}",
)
@crd_check
def schema_exclusive(crd: Crd) -> Iterator[Finding]:
    """Otherwise it would not be clear which of them holds."""
    for parts, (_, told) in zip((crd.schemas, crd.subresources, crd.columns), _TOGETHER, strict=True):
        if parts.top.value not in (None, []) and any(part.value not in (None, []) for part in parts.each):
            yield parts.top.finding(f"is set, but there are {told} in versions too", subject=parts.top.field)


@rule(
    "CRD-PER-VERSION-TOP-LEVEL",
    "crd",
    Severity.ERROR,
    "all versions of a v1beta1 CRD repeat the same schema, subresources or printer columns",
    hint="Move them to the top of the spec, or better migrate the CRD to apiextensions.k8s.io/v1.",
    bad="spec: {versions: [{name: v1, subresources: {status: {}}}]}",
    good="spec: {subresources: {status: {}}, versions: [{name: v1}]}",
)
@crd_check
def per_version_top_level(crd: Crd) -> Iterator[Finding]:
    """``v1beta1`` wants what holds for all versions at the top. (``v1`` has it in each version.)"""
    for parts, (top, told) in zip((crd.schemas, crd.subresources, crd.columns), _TOGETHER, strict=True):
        if parts.repeats:
            yield crd.spec.child("versions").finding(f"repeats the same {told} in each version, instead of spec.{top}")
