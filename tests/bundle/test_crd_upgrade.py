"""Tests of the safety of CRD upgrades."""

from __future__ import annotations

import copy
import random
import time
from typing import Any

import pytest

from opmkit.bundle.crd_upgrade import (
    CrdChange,
    olm_v0_changes,
    olm_v1_changes,
    stored_versions,
)
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion
from tests.kit.crd_pairs import random_pair

Definition = dict[str, Any]


def definition(*versions: Definition, **spec: object) -> Definition:
    """Return a CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "lagoons.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": list(versions), **spec},
    }


def version(name: str, schema: object = None, *, served: bool = True, storage: bool = False) -> Definition:
    """Return a version."""
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def spec_schema(depth: object) -> Definition:
    """Return a schema in which ``spec.depth`` has a schema."""
    spec = {"type": "object", "properties": {"depth": depth}}
    return {"type": "object", "properties": {"spec": spec}}


def with_depth(schema: object, **spec: object) -> Definition:
    """Return a definition whose only version has a schema for ``spec.depth``."""
    return definition(version("v1", spec_schema(schema)), **spec)


def found(changes: list[CrdChange]) -> list[tuple[str, str, str]]:
    """Return check, location and message of each change."""
    return [(change.check, change.location, change.message) for change in changes]


DEPTH = "v1: ^.spec.depth"


@pytest.mark.parametrize(
    ("old", "new", "check", "message"),
    [
        ({"type": "integer"}, {"type": "string"}, "type", 'type changes from "integer" to "string"'),
        ({}, {"default": 1}, "default", "default 1 is added"),
        ({"default": 1}, {"default": True}, "default", "default changes from 1 to true"),
        ({"default": 1}, {}, "default", "default 1 is removed"),
        ({}, {"enum": ["a", "b"]}, "enum", 'only "a", "b" are allowed'),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, "enum", '"a" are no longer allowed'),
        ({"enum": ["a"]}, {}, "enum", 'enum is removed, and with it "a"'),
        ({"pattern": "^a$"}, {"pattern": "^b$"}, "pattern", 'pattern changes from "^a$" to "^b$"'),
        ({"nullable": True}, {}, "nullable", "nullable true is removed"),
        ({"minimum": 1}, {"minimum": 2}, "minimum", "minimum changes from 1 to 2"),
        ({}, {"maxItems": 5}, "maxItems", "maxItems 5 is added"),
        ({"maxLength": 5}, {"maxLength": 4}, "maxLength", "maxLength changes from 5 to 4"),
        ({"required": ["a"]}, {"required": ["a", "b"]}, "required", '"b" is required'),
        ({}, {"required": ["c", "b"]}, "required", '"b", "c" are required'),
        ({"format": "int32"}, {"format": "int64"}, "unhandled", 'format changes from "int32" to "int64"'),
        (
            {"additionalProperties": {"description": "old"}},
            {"additionalProperties": {"description": "new"}},
            "unhandled",
            'additionalProperties.description changes from "old" to "new"',
        ),
        (
            {},
            {"format": "byte", "title": "Depth", "uniqueItems": True, "x-kubernetes-list-type": "set"},
            "unhandled",
            'format "byte" is added; title "Depth" is added; uniqueItems true is added; 1 more changes',
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"oneOf": [{"required": ["b"]}]},
            "oneOf",
            '{"required": ["a"]} are no longer alternatives of oneOf',
        ),
    ],
)
def test_a_change_of_a_property_is_unsafe(old: Definition, new: Definition, check: str, message: str) -> None:
    changes = olm_v1_changes(with_depth(old), with_depth(new))
    assert (check, DEPTH, message) in found(changes)
    assert all(change.severity is Severity.ERROR and change.olm is OlmVersion.V1 for change in changes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"description": "old"}, {"description": "new"}),
        ({"enum": ["a"]}, {"enum": ["b", "a"]}),
        ({"required": ["a", "b"]}, {"required": ["b"]}),
        ({"minimum": 2}, {"minimum": 1}),
        ({"maximum": 2}, {"maximum": 2.0}),
        ({"maximum": 2}, {}),
        ({"nullable": False, "required": []}, {"enum": [], "format": ""}),
        ({"oneOf": [{"required": ["a"]}]}, {"oneOf": [{"required": ["a"], "description": "new"}]}),
        ({}, {"unknown": 1}),
        ({}, {"properties": {"added": {"type": "string", "default": "a"}}}),
    ],
)
def test_a_change_of_a_property_is_safe(old: Definition, new: Definition) -> None:
    assert olm_v1_changes(with_depth(old), with_depth(new)) == []


def test_a_removed_field_is_reported_with_its_fields() -> None:
    nested = {"type": "object", "properties": {"unit": {"type": "string"}}}
    changes = olm_v1_changes(with_depth(nested), definition(version("v1", {"type": "object"})))
    removed = [change.path for change in changes if change.check == "existingFieldRemoval"]
    assert removed == ["^.spec", "^.spec.depth", "^.spec.depth.unit"]
    assert ("type", "v1: ^.spec.depth.unit", 'type "string" is removed') in found(changes)


def test_paths_are_those_of_crdify() -> None:
    old = {
        "items": [{"type": "string"}, {"type": "string"}],
        "allOf": [{"type": "string"}],
        "not": {"type": "string"},
        "additionalProperties": {"type": "string"},
        "patternProperties": {"^a": {"type": "string"}},
        "dependencies": {"a": {"type": "string"}, "b": ["c"]},
    }
    paths = [change.path for change in olm_v1_changes(with_depth(old), with_depth({}))]
    for suffix in (".items[1]", ".allOf[0]", ".not", ".additionalProperties", ".patternProperties[^a]"):
        assert f"^.spec.depth{suffix}" in paths
    assert "^.spec.depth.dependencies[a]" in paths
    assert "^.spec.depth.dependencies[b]" not in paths


def test_scope_and_stored_versions_are_compared() -> None:
    old = definition(version("v1alpha1", storage=True), version("v1"))
    old["status"] = {"storedVersions": ["v1beta1"]}
    new = definition(version("v1", storage=True), scope="Cluster")
    assert stored_versions(old) == ("v1beta1", "v1alpha1")
    assert found(olm_v1_changes(old, new)) == [
        ("scope", "", 'scope changes from "Namespaced" to "Cluster"'),
        ("storedVersionRemoval", "", "version v1beta1 is removed, but objects may be stored in it"),
    ]
    changes = olm_v1_changes(old, new, stored=stored_versions(old))
    assert [change.check for change in changes].count("storedVersionRemoval") == 2


def test_served_versions_of_the_new_definition_are_compared() -> None:
    number, text = spec_schema({"type": "integer"}), spec_schema({"type": "string"})
    old = definition(version("v1", number))
    new = definition(version("v1", number), version("v1beta1", text))
    expected = [("type", "v1beta1 -> v1: ^.spec.depth", 'type changes from "string" to "integer"')]
    assert found(olm_v1_changes(old, new)) == expected
    assert olm_v1_changes(new, new) == []  # the old definition has the same problem
    assert olm_v1_changes(old, {**new, "spec": {**new["spec"], "conversion": {"strategy": "Webhook"}}}) == []
    assert olm_v1_changes(old, definition(version("v1", number), version("v1beta1", text, served=False))) == []


def test_served_versions_are_compared_from_the_less_stable_one() -> None:
    names = ["v1", "v10", "v2", "v1beta2", "v1alpha1", "foo", "bar"]
    new = definition(*(version(name, {"minimum": number}) for number, name in enumerate(names)))
    ordered = ["foo", "bar", "v1alpha1", "v1beta2", "v1", "v2", "v10"]
    for change in olm_v1_changes(definition(), new):
        before, after = change.versions.split(" -> ")
        assert ordered.index(before) < ordered.index(after)


def test_olm_v1_finds_limits_in_alternatives_changed() -> None:
    alternatives = [{"properties": {"unit": {"maxLength": 3}}}]
    old, new = ({"oneOf": alternatives, "description": text} for text in ("old", "new"))
    [change] = olm_v1_changes(with_depth(old), with_depth(new))
    assert change.check == "oneOf"
    assert change.message.endswith("OLM cannot compare oneOf because fields in it have limits such as minimum")
    assert olm_v0_changes(with_depth(old), with_depth(new)) == []


def test_olm_v1_compares_definitions_of_v1_only() -> None:
    new = {**with_depth({"type": "string"}), "apiVersion": "apiextensions.k8s.io/v1beta1"}
    assert olm_v1_changes(with_depth({"type": "integer"}), new) == []


def test_olm_v0_refuses_to_drop_stored_versions() -> None:
    old = definition(version("v1beta1"), version("v1", storage=True))
    [change] = olm_v0_changes(old, definition(version("v2", storage=True)))
    assert change.check == "storedVersionRemoval"
    assert (change.olm, change.severity) == (OlmVersion.V0, Severity.ERROR)
    assert olm_v0_changes(old, definition(version("v1"), version("v2", storage=True))) == []


@pytest.mark.parametrize(
    ("old", "new", "checks"),
    [
        ({}, {"required": ["a"]}, ["required"]),
        ({"type": "integer"}, {"type": "string"}, ["type"]),
        ({"type": "integer"}, {"type": "number"}, []),
        ({"default": 1}, {"default": 2}, []),
        ({"nullable": True}, {"nullable": False}, ["nullable"]),
        ({"nullable": False}, {"nullable": True}, []),
        ({"pattern": "a"}, {}, []),
        ({"enum": ["a"]}, {}, []),
        ({"enum": ["a"]}, {"enum": ["b"]}, ["enum"]),
        ({"oneOf": [{"required": ["a"]}]}, {}, []),
        ({"type": "integer"}, {"x-kubernetes-int-or-string": True}, []),
        ({"format": "int32"}, {"format": "int64"}, []),
    ],
)
def test_olm_v0_warns_of_restrictions(old: Definition, new: Definition, checks: list[str]) -> None:
    changes = olm_v0_changes(with_depth(old), with_depth(new))
    assert [change.check for change in changes] == checks
    assert all(change.severity is Severity.WARNING for change in changes)
    assert all(change.message.endswith(": existing objects may violate this") for change in changes)


def test_olm_v0_reads_definitions_of_v1beta1() -> None:
    def old_definition(schema: Definition) -> Definition:
        spec = {"version": "v1alpha1", "validation": {"openAPIV3Schema": schema}}
        return {"apiVersion": "apiextensions.k8s.io/v1beta1", "spec": spec}

    changes = olm_v0_changes(old_definition({}), old_definition({"required": ["spec"]}))
    assert [(change.check, change.location) for change in changes] == [("required", "v1alpha1: ^")]
    assert stored_versions(old_definition({})) == ("v1alpha1",)


@pytest.mark.slow
def test_too_large_definitions_are_reported() -> None:
    deep: Definition = {"type": "object"}
    for _ in range(150):
        deep = {"properties": {"a": deep}}
    [change] = [change for change in olm_v1_changes(with_depth(deep), with_depth({})) if change.check == "size"]
    assert change.message == "not compared: more than 100000 schemas, or 100 levels of them"
    wide: Definition = {"properties": {str(number): {} for number in range(100_100)}}
    assert [change.check for change in olm_v1_changes(with_depth(wide), with_depth({}))].count("size") == 1


def test_many_served_versions_are_compared_in_part() -> None:
    versions = [version(f"v{number}", {"minimum": number}) for number in range(1, 300)]
    changes = olm_v1_changes(definition(), definition(*versions))
    assert 0 < len(changes) <= 500


@pytest.mark.slow
def test_large_keywords_count_as_schemas() -> None:
    def nested(kind: str) -> Definition:
        fields: Definition = {str(number): {"type": kind, "format": kind} for number in range(3_000)}
        schema: Definition = {"properties": fields}
        for _ in range(90):
            schema = {"additionalProperties": schema}
        return schema

    start = time.process_time()
    changes = olm_v1_changes(with_depth(nested("string")), with_depth(nested("integer")))
    assert "size" in {change.check for change in changes}
    assert time.process_time() - start < 30


def test_definitions_of_any_depth_are_compared() -> None:
    old: Definition = {}
    for _ in range(20_000):
        old = {"properties": {"a": old}}
    new: Definition = {}
    for _ in range(20_001):
        new = {"properties": {"a": new}}
    assert {change.check for change in olm_v1_changes(with_depth(old), with_depth(new))} == {"size"}


JUNK: tuple[object, ...] = (
    None,
    1,
    1.5,
    float("nan"),
    float("inf"),
    True,
    "",
    "\ud800",
    [],
    [1],
    {},
    {"a": None},
    [[{}]],
    -(2**70),
)


def vandalize(rng: random.Random, value: Any) -> Any:
    """Return a copy with a random part replaced."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(JUNK)
    result = copy.copy(value)
    key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
    result[key] = vandalize(rng, value[key])
    return result


def test_definitions_of_any_shape_are_compared() -> None:
    rng = random.Random(1)
    for _ in range(400):
        old, new = random_pair(rng)
        for _ in range(3):
            old, new = vandalize(rng, old), vandalize(rng, new)
        old, new = (side if isinstance(side, dict) else {} for side in (old, new))
        for change in [*olm_v1_changes(old, new), *olm_v0_changes(old, new)]:
            assert change.message
