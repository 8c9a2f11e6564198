"""Rules of the validator ``crd``: printer columns, subresources, and schemas, whose findings the Go validators drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.structural_schema import SchemaRule

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


_ROOT = "openAPIV3Schema"


def _findings(crd: Crd, schema_rule: SchemaRule) -> Iterator[Finding]:
    for schema, findings in crd.schema_findings:
        for finding in findings:
            if finding.rule == schema_rule:
                node = schema.at(*finding.path)
                yield node.finding(finding.message, subject=node.where)


@rule(
    "CRD-SCHEMA",
    "crd",
    Severity.ERROR,
    "a CRD version has no schema",
    hint=(
        "Add schema.openAPIV3Schema to the version; to keep unknown fields, "
        "{type: object, x-kubernetes-preserve-unknown-fields: true}."
    ),
    bad="versions: [{name: v1, served: true, storage: true}]",
    good="versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]",
    compat=OPMKIT_ONLY,
)
@crd_check
def schema(crd: Crd) -> Iterator[Finding]:
    """Clusters prune all fields that the schema does not specify, so they reject a version without one."""
    if crd.preserves_unknown_fields or crd.schemas.top.child(_ROOT).present:
        return
    for version in crd.versions:
        node = version.child("schema").child(_ROOT)
        if not node.present:
            yield node.finding("is missing")


@rule(
    "CRD-STRUCTURAL-TYPE",
    "crd",
    Severity.ERROR,
    "missing or invalid type in a schema",
    hint="Set the type of each field, of the items of each array and of the root, which must be an object.",
    bad="properties: {spec: {properties: {size: {minimum: 1}}}}",
    good="properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_type(crd: Crd) -> Iterator[Finding]:
    """A schema is structural if it specifies the type of every value. Clusters reject CRDs with other schemas.

    Values with ``x-kubernetes-int-or-string`` or ``x-kubernetes-preserve-unknown-fields`` need no type.
    """
    return _findings(crd, SchemaRule.TYPE)


@rule(
    "CRD-STRUCTURAL-UNSUPPORTED",
    "crd",
    Severity.ERROR,
    "unsupported keyword in a schema",
    hint="Specify the value without the keyword: inline references, and list the fields of objects.",
    bad="properties: {spec: {$ref: '#/definitions/Spec'}}",
    good="properties: {spec: {type: object, properties: {size: {type: integer}}}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_unsupported(crd: Crd) -> Iterator[Finding]:
    """Custom resources do not support $ref, definitions, uniqueItems and patternProperties of OpenAPI v3."""
    return _findings(crd, SchemaRule.UNSUPPORTED)


@rule(
    "CRD-STRUCTURAL-NESTED",
    "crd",
    Severity.ERROR,
    "a schema specifies a value inside allOf, anyOf, oneOf or not",
    hint="Move it out of allOf, anyOf, oneOf and not, which may only restrict values.",
    bad="{type: object, anyOf: [{properties: {size: {type: integer}}}]}",
    good="{type: object, properties: {size: {type: integer}}, anyOf: [{required: [size]}]}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_nested(crd: Crd) -> Iterator[Finding]:
    """Structural schemas specify types, defaults, descriptions and extensions outside of logical junctors."""
    return _findings(crd, SchemaRule.NESTED)


@rule(
    "CRD-STRUCTURAL-INCOMPLETE",
    "crd",
    Severity.ERROR,
    "a schema restricts a field that it does not specify",
    hint="Specify the field with its type in properties, outside of allOf, anyOf, oneOf and not.",
    bad="{type: object, anyOf: [{properties: {size: {minimum: 1}}}]}",
    good="{type: object, properties: {size: {type: integer}}, anyOf: [{properties: {size: {minimum: 1}}}]}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_incomplete(crd: Crd) -> Iterator[Finding]:
    """A field that appears only inside allOf, anyOf, oneOf or not would be pruned as unknown."""
    return _findings(crd, SchemaRule.INCOMPLETE)


@rule(
    "CRD-STRUCTURAL-METADATA",
    "crd",
    Severity.ERROR,
    "a schema restricts the metadata of objects",
    hint="Specify metadata as {type: object}; only name and generateName may be restricted.",
    bad="properties: {metadata: {type: object, properties: {labels: {type: object}}}}",
    good="properties: {metadata: {type: object}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_metadata(crd: Crd) -> Iterator[Finding]:
    """Clusters define metadata, apiVersion and kind themselves, the same for all objects."""
    return _findings(crd, SchemaRule.METADATA)


@rule(
    "CRD-STRUCTURAL-EXTENSION",
    "crd",
    Severity.ERROR,
    "invalid x-kubernetes keyword in a schema",
    hint="Change the keyword, or the keywords next to it, as the Kubernetes documentation requires.",
    bad="{type: array, x-kubernetes-list-type: map, items: {type: object}}",
    good=(
        "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], "
        "items: {type: object, required: [name], properties: {name: {type: string}}}}"
    ),
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_extension(crd: Crd) -> Iterator[Finding]:
    """These keywords control merging of lists and maps, pruning, embedded objects and validation rules."""
    return _findings(crd, SchemaRule.EXTENSION)


@rule(
    "CRD-STRUCTURAL-PATTERN",
    "crd",
    Severity.ERROR,
    "unsupported regular expression in a schema",
    hint="Write the pattern without lookahead, lookbehind and backreferences.",
    bad="{type: string, pattern: '^(?!x).*'}",
    good="{type: string, pattern: '^[^x].*'}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_pattern(crd: Crd) -> Iterator[Finding]:
    """Clusters match patterns with Go's regexp package (RE2), which supports neither lookaround nor backreferences."""
    return _findings(crd, SchemaRule.PATTERN)


@rule(
    "CRD-STRUCTURAL-DEFAULT",
    "crd",
    Severity.ERROR,
    "invalid default in a schema",
    hint="Change the default to a value that the schema allows, or remove it.",
    bad="{type: integer, default: 'one'}",
    good="{type: integer, default: 1}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_default(crd: Crd) -> Iterator[Finding]:
    """Clusters set defaults in every object, so they reject defaults that make an object invalid."""
    return _findings(crd, SchemaRule.DEFAULT)
