"""Rules of the validator ``crd``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml

from opmkit.bundle.validation.compat import Compat
from tests.kit.validation import findings, view

FILE = "manifests/crd.yaml"
GOOD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: demos.example.com
spec:
  group: example.com
  scope: Namespaced
  names:
    kind: Demo
    plural: demos
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 1}
"""
OLD = """\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: demos.example.com
spec:
  group: example.com
  version: v1
  preserveUnknownFields: false
  names:
    kind: Demo
    plural: demos
  validation:
    openAPIV3Schema: {type: object}
"""


def check(text: str, compat: Compat = Compat.OPMKIT) -> list[tuple[str, str, int]]:
    """Return rule, subject and line of all findings."""
    return [(finding.rule, finding.subject, finding.line) for finding in findings(view({FILE: text}, compat), "crd")]


@pytest.mark.parametrize("text", [GOOD, OLD])
def test_valid_definitions_pass(text: str) -> None:
    assert check(text) == []


CHANGES = [
    ("name: demos.example.com", "name: demos.other.com", "CRD-NAME-MISMATCH", "demos.other.com", 4),
    ("metadata:\n", "metadata:\n  namespace: x\n", "CRD-META", "metadata.namespace", 4),
    ("  name: demos.example.com\n", "  generateName: demos\n", "CRD-META", "metadata.name", 3),
    ("name: demos.example.com", "name: demos.example.com\n  labels: {a b: c}", "CRD-META", "metadata.labels.a b", 5),
    ("scope: Namespaced", "scope: namespaced", "CRD-SCOPE", "namespaced", 7),
    ("plural: demos", "plural: demos\n    shortNames: [D_X]", "CRD-NAMES", "D_X", 11),
    ("plural: demos", "plural: demos\n    listKind: Demo", "CRD-NAMES", "Demo", 11),
    ("plural: demos", "plural: demos\n    singular: D_X", "CRD-NAMES", "D_X", 11),
    ("storage: true", "storage: false", "CRD-STORAGE-VERSION", "spec.versions", 11),
    ("- name: v1\n", "- name: V1\n", "CRD-VERSION-NAME", "V1", 12),
    ("served: true", "deprecationWarning: old", "CRD-DEPRECATION-WARNING", "spec.versions[0].deprecationWarning", 13),
    ("scope:", "preserveUnknownFields: true\n  scope:", "CRD-PRESERVE-UNKNOWN-FIELDS", "spec.preserveUnknownFields", 7),
    ("scope:", "conversion: {strategy: webhook}\n  scope:", "CRD-CONVERSION-STRATEGY", "webhook", 7),
    (
        "served: true",
        "additionalPrinterColumns: [{name: A, type: float, jsonPath: .a}]",
        "CRD-PRINTER-COLUMN",
        "float",
        13,
    ),
    (
        "served: true",
        "subresources: {scale: {specReplicasPath: .x, statusReplicasPath: .status.x}}",
        "CRD-SUBRESOURCES",
        ".x",
        13,
    ),
    (
        "served: true",
        "subresources: {scale: {specReplicasPath: .spec.x, statusReplicasPath: .x}}",
        "CRD-SUBRESOURCES-STATUS",
        ".x",
        13,
    ),
]


@pytest.mark.parametrize(("old", "new", "rule", "subject", "line"), CHANGES, ids=lambda value: str(value)[:30])
def test_problems_are_reported_with_their_line(old: str, new: str, rule: str, subject: str, line: int) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    assert (rule, subject, line) in check(text)


@pytest.mark.parametrize(("group", "subject"), [("''", "spec.group"), ("Demo_x", "Demo_x"), ("demo", "demo")])
def test_invalid_groups(group: str, subject: str) -> None:
    assert ("CRD-GROUP", subject, 6) in check(GOOD.replace("group: example.com", f"group: {group}"))


@pytest.mark.parametrize(
    ("annotation", "fires"),
    [("", True), ("soon", True), ("https://example.com/review", False), ("unapproved, ours alone", False)],
)
def test_kubernetes_groups_need_approval(annotation: str, fires: bool) -> None:
    text = GOOD.replace("example.com", "demo.k8s.io").replace(
        "  name:", f"  annotations: {{api-approved.kubernetes.io: '{annotation}'}}\n  name:", 1
    )
    found = [rule for rule, _, line in check(text) if line == 4]
    assert found == ["CRD-API-APPROVED"] * fires


def test_a_duplicate_version_is_reported_once() -> None:
    version = "\n  - {name: v1, schema: {openAPIV3Schema: {type: object}}}"
    assert check(GOOD + 2 * version.replace("\n  -", "  -", 1).join(["", "\n"])) == [
        ("CRD-VERSION-DUPLICATE", "spec.versions", 23)
    ]


WEBHOOK = "strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: %s}"


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        (WEBHOOK % "{url: 'https://a.b/c'}", []),
        (WEBHOOK % "{service: {name: a, namespace: b, path: /c.d}}", []),
        (WEBHOOK % "{}", [("CRD-CONVERSION-CLIENT-CONFIG", "spec.conversion.webhookClientConfig")]),
        (WEBHOOK % "{url: 'http://a.b?c#d'}", [("CRD-CONVERSION-CLIENT-CONFIG", s) for s in ("http", "d", "c")]),
        (WEBHOOK % "{url: '%zz'}", [("CRD-CONVERSION-CLIENT-CONFIG", "spec.conversion.webhookClientConfig.url")]),
        (
            WEBHOOK % "{service: {name: a, port: 0, path: /x//Y}}",
            [
                ("CRD-CONVERSION-CLIENT-CONFIG", "spec.conversion.webhookClientConfig.service.namespace"),
                ("CRD-CONVERSION-CLIENT-CONFIG", "spec.conversion.webhookClientConfig.service.port"),
                *[("CRD-CONVERSION-CLIENT-CONFIG", "/x//Y")] * 2,
            ],
        ),
        (
            "strategy: Webhook, webhook: {conversionReviewVersions: [v2, v2], clientConfig: {url: 'https://a.b'}}",
            [("CRD-CONVERSION-REVIEW-VERSIONS", s) for s in ("v2", "spec.conversion.conversionReviewVersions")],
        ),
        ("webhook: {clientConfig: {url: x}}, strategy: None", [("CRD-CONVERSION-CLIENT-CONFIG", "*")]),
    ],
)
def test_conversion(conversion: str, expected: list[tuple[str, str]]) -> None:
    found = check(GOOD.replace("  scope:", f"  conversion: {{{conversion}}}\n  scope:", 1))
    assert [line for _, _, line in found] == [7] * len(found)
    wanted = [(rule, "spec.conversion.webhookClientConfig" if s == "*" else s) for rule, s in expected]
    assert sorted((rule, subject) for rule, subject, _ in found) == sorted(wanted)


def test_v1beta1_preserves_unknown_fields_by_default() -> None:
    text = OLD.replace("  preserveUnknownFields: false\n", "")
    assert check(text) == [("CRD-PRESERVE-UNKNOWN-FIELDS", "spec.preserveUnknownFields", 5)]
    assert len(check(text.replace("{type: object}", "{type: object, default: {}}"))) == 2


def test_the_top_level_version_must_be_the_first() -> None:
    text = OLD + "  versions: [{name: v2, served: true, storage: true}]\n"
    assert check(text) == [("CRD-V1BETA1-VERSION", "v1", 7)]
    named = GOOD.replace("- name: v1", "- name: V1")
    assert [rule for rule, _, _ in check(named, Compat.NEWEST)] == ["CRD-VERSION-NAME", "CRD-V1BETA1-VERSION"]
    assert [rule for rule, _, _ in check(named)] == ["CRD-VERSION-NAME"]


def test_fields_at_the_top_level_and_in_versions() -> None:
    version = "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}"
    assert check(OLD + f"  versions: [{version}]\n") == [
        ("CRD-SCHEMA-EXCLUSIVE", "spec.validation", 12),
        ("CRD-PER-VERSION-TOP-LEVEL", "spec.versions", 14),
    ]


OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "properties": {"size": {"type": "integer"}},
}
SCHEMAS = [
    ("CRD-STRUCTURAL-TYPE", {"properties": {"a": {"minimum": 1}}}, "properties.a.type"),
    ("CRD-STRUCTURAL-TYPE", {"properties": {"a": {"type": "null"}}}, "properties.a.type"),
    ("CRD-STRUCTURAL-TYPE", {"properties": {"a": {"type": "array"}}}, "properties.a.items"),
    ("CRD-STRUCTURAL-TYPE", {"type": "string"}, "type"),
    ("CRD-STRUCTURAL-UNSUPPORTED", {"properties": {"a": {"type": "object", "$ref": "#/b"}}}, "properties.a.$ref"),
    ("CRD-STRUCTURAL-UNSUPPORTED", {"additionalProperties": {"type": "string"}}, "additionalProperties"),
    ("CRD-STRUCTURAL-UNSUPPORTED", {"nullable": True}, "nullable"),
    (
        "CRD-STRUCTURAL-NESTED",
        {"anyOf": [{"properties": {"size": {"type": "integer"}}}]},
        "anyOf[0].properties.size.type",
    ),
    ("CRD-STRUCTURAL-INCOMPLETE", {"anyOf": [{"properties": {"b": {"minimum": 1}}}]}, "anyOf[0].properties.b"),
    (
        "CRD-STRUCTURAL-INCOMPLETE",
        {"not": {"properties": {"size": {"items": {"minimum": 1}}}}},
        "not.properties.size.items",
    ),
    (
        "CRD-STRUCTURAL-METADATA",
        {"properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
        "properties.metadata",
    ),
    ("CRD-STRUCTURAL-METADATA", {"properties": {"kind": {"type": "object"}}}, "properties.kind.type"),
    (
        "CRD-STRUCTURAL-EXTENSION",
        {"properties": {"l": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}},
        "properties.l.x-kubernetes-list-map-keys",
    ),
    (
        "CRD-STRUCTURAL-EXTENSION",
        {"properties": {"l": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}}},
        "properties.l.items.x-kubernetes-map-type",
    ),
    (
        "CRD-STRUCTURAL-EXTENSION",
        {"x-kubernetes-validations": [{"rule": "a ==\nb"}]},
        "x-kubernetes-validations[0].message",
    ),
    ("CRD-STRUCTURAL-PATTERN", {"properties": {"a": {"type": "string", "pattern": "^(?!b)"}}}, "properties.a.pattern"),
    ("CRD-STRUCTURAL-DEFAULT", {"properties": {"a": {"type": "integer", "default": "1"}}}, "properties.a.default"),
    ("CRD-STRUCTURAL-DEFAULT", {"properties": {"a": {"type": "object", "default": {"b": 1}}}}, "properties.a.default"),
    ("CRD-STRUCTURAL-DEFAULT", {"properties": {"kind": {"type": "string", "default": "A"}}}, "properties.kind.default"),
    ("CRD-STRUCTURAL-DEFAULT", {"properties": {"a": EMBEDDED | {"default": {"kind": 1}}}}, "properties.a.default"),
    ("CRD-STRUCTURAL-DEFAULT", {"properties": {"a": EMBEDDED | {"default": {"spec": {}}}}}, "properties.a.default"),
    (
        "CRD-STRUCTURAL-DEFAULT",
        {"properties": {"a": OPEN | {"properties": {"b": {"type": "object"}}, "default": {"b": {"c": 1}}}}},
        "properties.a.default",
    ),
]


@pytest.mark.parametrize(("rule", "schema", "field"), SCHEMAS, ids=lambda value: str(value)[:40])
def test_invalid_schemas(rule: str, schema: dict[str, Any], field: str) -> None:
    text = with_schema(schema)
    found = {(finding.rule, finding.subject) for finding in findings(view({FILE: text}), "crd")}
    assert found == {(rule, f"spec.versions[0].schema.openAPIV3Schema.{field}")}
    assert check(text, Compat.NEWEST) == []  # the Go validators drop them


def with_schema(more: dict[str, Any]) -> str:
    crd = deepcopy(yaml.safe_load(GOOD))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["size"] = {"type": "integer"}
    schema.update({**more, "properties": {**schema["properties"], **more.get("properties", {})}})
    return json.dumps(crd)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}}},
        {"properties": {"a": OPEN | {"default": {"b": {"c": [{"d": {"e": 1}}]}}}}},
        {"properties": {"a": {**OPEN, "type": "array", "items": {"type": "object"}, "default": [{"b": {"c": 1}}]}}},
        {"properties": {"a": EMBEDDED | {"default": {"kind": "B", "metadata": {"labels": {"b": "c"}}}}}},
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"b": "c"}}}},
        {"properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}},
        {"properties": {"a": {"type": "string", "pattern": r"^[(?=]\\(?:a|b)\d+$"}}},
        {"anyOf": [{"required": ["size"]}, {"properties": {"size": {"minimum": 1}}}]},
    ],
)
def test_valid_schemas(schema: dict[str, Any]) -> None:
    assert check(with_schema(schema)) == []


def test_a_version_without_schema() -> None:
    assert check(GOOD[: GOOD.index("    schema:")]) == [
        ("CRD-SCHEMA", "spec.versions[0].schema.openAPIV3Schema", 12),
    ]


@pytest.mark.parametrize("value", ["x", 1, None, [], {}, [[]], [None], {"a": 1}, True])
def test_values_of_the_wrong_type_do_not_raise(value: object) -> None:
    crd = yaml.safe_load(GOOD)
    holders = [crd, crd["spec"], crd["spec"]["names"], crd["spec"]["versions"][0]]
    for holder in holders:
        for name in [*holder, "conversion", "subresources", "additionalPrinterColumns", "validation"]:
            changed = deepcopy(crd)
            position = [crd, crd["spec"], crd["spec"]["names"], crd["spec"]["versions"][0]].index(holder)
            targets = [changed, changed["spec"], changed["spec"]["names"], changed["spec"]["versions"][0]]
            targets[position][name] = value
            for version in ("v1", "v1beta1"):
                text = json.dumps(changed).replace("k8s.io/v1", f"k8s.io/{version}")
                assert isinstance(check(text), list)


def test_deeply_nested_schemas_do_not_raise() -> None:
    deep = '{"type": "object", "properties": {"a": ' * 300 + "{}" + "}}" * 300
    text = with_schema({}).replace('"type": "integer"', f'"type": "object", "not": {deep}', 1)
    assert isinstance(check(text), list)


def test_equal_files_are_checked_once() -> None:
    bundle = view({FILE: OLD, "manifests/other.yaml": OLD.replace("  preserveUnknownFields: false\n", "")})
    again = view({"manifests/third.yaml": bundle.files["manifests/other.yaml"]}, contents=bundle.contents)
    first, second = findings(bundle, "crd"), findings(again, "crd")
    assert [finding.file for finding in first + second] == ["manifests/other.yaml", "manifests/third.yaml"]
    assert len(bundle.manifest("manifests/other.yaml").content.memo) == len(again.manifests[0].content.memo)


def test_deprecation_warnings_have_at_most_256_bytes() -> None:
    for length, rules in [(256, []), (257, ["CRD-DEPRECATION-WARNING"])]:
        deprecated = f"served: true\n    deprecated: true\n    deprecationWarning: {'x' * length}"
        assert [rule for rule, _, _ in check(GOOD.replace("served: true", deprecated))] == rules


VERSION = "  - name: v1\n    served: true\n    storage: {}\n    schema: {{openAPIV3Schema: {{type: object}}}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("storage: true", "storage: false"), "spec.versions has no storage version"),
        (GOOD + VERSION.format("true").replace("v1", "v2"), "spec.versions has 2 storage versions (v1, v2)"),
        (
            OLD.replace("version: v1", "version: v3\n  versions: [{name: v1, storage: true}, {name: v2}]"),
            "spec.version is 'v3', but the first of spec.versions is 'v1'",
        ),
    ],
)
def test_messages_name_versions(text: str, message: str) -> None:
    assert message in [finding.message for finding in findings(view({FILE: text}), "crd")]
