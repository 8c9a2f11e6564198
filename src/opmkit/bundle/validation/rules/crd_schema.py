"""Rules of the validator ``crd`` on schemas, which the references lack: they drop all faults below openAPIV3Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.structural_schema import Aspect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.crd_view import Crd

_ROOT = "openAPIV3Schema"


def _of(crd: Crd, aspect: Aspect) -> Iterator[Finding]:
    for schema, findings in crd.schema_findings:
        for finding in findings:
            if finding.rule == aspect:
                node = schema.at(*finding.path)
                yield node.finding(finding.message, subject=node.where)


@rule(
    "CRD-SCHEMA",
    "crd",
    Severity.ERROR,
    "a version of a CRD has no schema",
    hint=(
        "Give the version a schema.openAPIV3Schema; where all is to be kept as it is, "
        "{type: object, x-kubernetes-preserve-unknown-fields: true}."
    ),
    bad="versions: [{name: v1, served: true, storage: true}]",
    good="versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]",
    compat=OPMKIT_ONLY,
)
@crd_check
def schema(crd: Crd) -> Iterator[Finding]:
    """Clusters drop all fields that no schema describes, so they take no version without one."""
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
    "a schema does not say the type of a value, or an impossible one",
    hint="Give each field, the items of each array and the root a type; that of the root is object.",
    bad="properties: {spec: {properties: {size: {minimum: 1}}}}",
    good="properties: {spec: {type: object, properties: {size: {type: integer, minimum: 1}}}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_type(crd: Crd) -> Iterator[Finding]:
    """A schema is structural if it tells the type of every value. A cluster refuses a CRD with any other.

    A value may go without type if it has ``x-kubernetes-int-or-string`` or ``x-kubernetes-preserve-unknown-fields``.
    """
    return _of(crd, Aspect.TYPE)


@rule(
    "CRD-STRUCTURAL-UNSUPPORTED",
    "crd",
    Severity.ERROR,
    "a schema uses a keyword that custom resources do not have, or one where it must not stand",
    hint="Describe the value without it: spell out what is referred to, and name the fields of objects.",
    bad="properties: {spec: {$ref: '#/definitions/Spec'}}",
    good="properties: {spec: {type: object, properties: {size: {type: integer}}}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_unsupported(crd: Crd) -> Iterator[Finding]:
    """Of OpenAPI v3, custom resources leave out references, definitions, unique items and patterns for field names."""
    return _of(crd, Aspect.UNSUPPORTED)


@rule(
    "CRD-STRUCTURAL-NESTED",
    "crd",
    Severity.ERROR,
    "a schema describes a value within allOf, anyOf, oneOf or not",
    hint="Move it out of allOf and the like: there, values may be restricted, but not described.",
    bad="{type: object, anyOf: [{properties: {size: {type: integer}}}]}",
    good="{type: object, properties: {size: {type: integer}}, anyOf: [{required: [size]}]}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_nested(crd: Crd) -> Iterator[Finding]:
    """What a value is must be clear without its content: types, defaults, descriptions and extensions stand outside."""
    return _of(crd, Aspect.NESTED)


@rule(
    "CRD-STRUCTURAL-INCOMPLETE",
    "crd",
    Severity.ERROR,
    "a schema restricts a field that it does not describe",
    hint="Describe the field, with its type, below properties outside of allOf, anyOf, oneOf and not.",
    bad="{type: object, anyOf: [{properties: {size: {minimum: 1}}}]}",
    good="{type: object, properties: {size: {type: integer}}, anyOf: [{properties: {size: {minimum: 1}}}]}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_incomplete(crd: Crd) -> Iterator[Finding]:
    """A field that stands within allOf and the like alone would be dropped from objects as unknown."""
    return _of(crd, Aspect.INCOMPLETE)


@rule(
    "CRD-STRUCTURAL-METADATA",
    "crd",
    Severity.ERROR,
    "a schema says of the metadata of objects what it may not",
    hint="Describe metadata as {type: object}, restricting name and generateName at most.",
    bad="properties: {metadata: {type: object, properties: {labels: {type: object}}}}",
    good="properties: {metadata: {type: object}}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_metadata(crd: Crd) -> Iterator[Finding]:
    """All objects have the same metadata, apiVersion and kind, which clusters look after themselves."""
    return _of(crd, Aspect.METADATA)


@rule(
    "CRD-STRUCTURAL-EXTENSION",
    "crd",
    Severity.ERROR,
    "an x-kubernetes keyword of a schema does not fit the value, or other keywords",
    hint="See the API server's rules for the keyword, and change it or what it stands beside.",
    bad="{type: array, x-kubernetes-list-type: map, items: {type: object}}",
    good=(
        "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], "
        "items: {type: object, required: [name], properties: {name: {type: string}}}}"
    ),
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_extension(crd: Crd) -> Iterator[Finding]:
    """They say how lists and maps are merged, which objects are embedded or kept as they are, and what must hold."""
    return _of(crd, Aspect.EXTENSION)


@rule(
    "CRD-STRUCTURAL-PATTERN",
    "crd",
    Severity.ERROR,
    "a pattern in a schema is no regular expression of Go",
    hint="Write the pattern without looking ahead or behind, and without references back.",
    bad="{type: string, pattern: '^(?!x).*'}",
    good="{type: string, pattern: '^[^x].*'}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_pattern(crd: Crd) -> Iterator[Finding]:
    """Clusters match patterns by Go's library (RE2), which knows neither lookaround nor references to groups."""
    return _of(crd, Aspect.PATTERN)


@rule(
    "CRD-STRUCTURAL-DEFAULT",
    "crd",
    Severity.ERROR,
    "a default in a schema is no value that the schema allows",
    hint="Give a default of the right type, of known fields alone, or none.",
    bad="{type: integer, default: 'one'}",
    good="{type: integer, default: 1}",
    compat=OPMKIT_ONLY,
)
@crd_check
def structural_default(crd: Crd) -> Iterator[Finding]:
    """A cluster sets defaults in every object, so it refuses those that would make objects invalid."""
    return _of(crd, Aspect.DEFAULT)
