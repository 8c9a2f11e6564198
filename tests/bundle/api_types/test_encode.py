"""Encoding of objects as Go programs write them."""

from __future__ import annotations

from opmkit.bundle.api_types.encode import Encoded, encode_struct
from opmkit.documents import go_yaml
from opmkit.documents.fields import format_path


def encode(text: str, struct: str) -> Encoded:
    return encode_struct(go_yaml.load(text.encode()), struct)


def test_fields_without_omitempty_are_added() -> None:
    assert encode("{}", "DeploymentSpec").value == {
        "selector": None,
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": None}},
    }
    assert encode("{ports: [{port: 1}]}", "ServiceSpec").value == {"ports": [{"port": 1, "targetPort": 0}]}


def test_empty_fields_are_omitted() -> None:
    value = encode(
        "{paused: false, minReadySeconds: 0, replicas: 0, revisionHistoryLimit: null}", "DeploymentSpec"
    ).value
    assert value.keys() - {"selector", "strategy", "template"} == {"replicas"}
    assert encode("{args: [], env: [], securityContext: {}, name: a}", "Container").value == {
        "name": "a",
        "resources": {},
        "securityContext": {},
    }


def test_scalars_are_canonical() -> None:
    value = encode("{limits: {cpu: 0.5, memory: 1024Mi}, requests: {cpu: 2}}", "ResourceRequirements").value
    assert value == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "2"}}
    spec = encode("{version: v1.2}", "ClusterServiceVersionSpec").value
    assert spec["version"] == "1.2.0"
    assert encode("{name: a, value: 1}", "EnvVar").value == {"name": "a", "value": "1"}


def test_schemas() -> None:
    text = "{items: [{type: string}, {}], additionalProperties: false, dependencies: {a: [b], c: {type: x}}}"
    assert encode(text, "JSONSchemaProps").value == {
        "items": [{"type": "string"}, {}],
        "additionalProperties": False,
        "dependencies": {"a": ["b"], "c": {"type": "x"}},
    }


def test_unknown_fields_are_retained() -> None:
    encoded = encode("{a: 1, template: {spec: {tolerations: [{b: [2]}]}}, strategy: {c: {d: 3}}}", "DeploymentSpec")
    assert [format_path(field.path) for field in encoded.unknown] == [
        "a",
        "strategy.c",
        "template.spec.tolerations[0].b",
    ]
    assert encoded.value["a"] == 1
    assert encoded.value["strategy"] == {"c": {"d": 3}}
    assert encoded.value["template"]["spec"]["tolerations"] == [{"b": [2]}]


def test_names_that_differ_in_case_are_known() -> None:
    encoded = encode("{Replicas: 2}", "DeploymentSpec")
    assert encoded.value["replicas"] == 2
    assert "Replicas" not in encoded.value
    assert encoded.unknown == ()


def test_values_of_the_wrong_type_are_reported() -> None:
    encoded = encode("{replicas: many}", "DeploymentSpec")
    assert "replicas" not in encoded.value
    assert [mismatch.problem for mismatch in encoded.mismatches] == ["is a string, not an integer"]
