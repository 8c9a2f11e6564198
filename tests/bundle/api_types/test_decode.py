"""Values read into typed fields: what each way of reading takes, and what it says of the rest."""

from __future__ import annotations

import pytest

from opmkit.bundle.api_types import csv_fields, decode
from opmkit.bundle.api_types.decode import Decoded, TypeMismatch, decode_csv, decode_struct, format_path
from opmkit.bundle.api_types.scalars import SCALARS, DecodeMode
from opmkit.bundle.content import Content
from opmkit.bundle.validation.rule import Dialect


def spec(text: str, reading: DecodeMode | None = None, dialect: Dialect = Dialect.NEWEST) -> Decoded:
    return decode_csv(Content.read(f"spec: {{{text}}}".encode()), dialect, reading)


def test_every_type_of_the_table_is_known() -> None:
    for struct, text in csv_fields.STRUCTS.items():
        fields, _ = decode._fields(struct)
        assert len(fields) == len(text.split()) - text.count(":")
        for name, kind in fields.items():
            item = decode._type(kind.of)
            assert item.of in csv_fields.STRUCTS or item.of in SCALARS, f"{struct}.{name}"


def test_all_faults_are_told_with_their_places() -> None:
    typed = spec(
        "keywords: one, links: {name: a}, installModes: [{type: x, supported: 'true'}, 7], version: latest,"
        " install: {spec: {deployments: [{spec: {replicas: few, template: {spec: {containers: ["
        "{resources: {limits: {cpu: 1 core}}, ports: [{containerPort: 80.5}, {containerPort: 9999999999}]}]}}}}]}}"
    )
    container = ("spec", "install", "spec", "deployments", 0, "spec", "template", "spec", "containers", 0)
    assert [(format_path(fault.path), fault.problem) for fault in typed.mismatches] == [
        ("spec.install.spec.deployments[0].spec.replicas", "is a text, not an integer"),
        (format_path((*container, "ports", 0, "containerPort")), "is a number, not an integer"),
        (format_path((*container, "ports", 1, "containerPort")), "is 9999999999, more than 32 bits can hold"),
        (
            format_path((*container, "resources", "limits", "cpu")),
            "is '1 core', which is no quantity such as 100m, 1.5 or 32Mi",
        ),
        ("spec.installModes[0].supported", "is a text, not a boolean"),
        ("spec.installModes[1]", "is a number, not a mapping"),
        ("spec.keywords", "is a text, not a list"),
        ("spec.links", "is a mapping, not a list"),
        ("spec.version", "is 'latest', which is no version such as 1.2.3"),
    ]
    assert typed.has_mismatch("spec", "links")
    assert not typed.has_mismatch("spec", "icon")


@pytest.mark.parametrize("value", ["1", "1.5", "true"])
def test_a_text_is_taken_from_a_scalar_in_yaml_alone(value: str) -> None:
    taken = spec(f"displayName: {value}, labels: {{a: {value}}}", DecodeMode.YAML)
    assert taken.value == {"spec": {"displayName": value, "labels": {"a": value}}}
    for reading in (DecodeMode.JSON, DecodeMode.OBJECT):
        refused = spec(f"displayName: {value}, labels: {{a: {value}}}", reading)
        assert [fault.path[1:] for fault in refused.mismatches] == [("displayName",), ("labels", "a")]
        assert refused.mismatches[0].remedy == "Put it in quotes."


def test_the_older_reference_reads_json_as_json_and_knows_no_release() -> None:
    content = Content.read(b'{"spec": {"displayName": 1, "release": "01"}}')
    faults = {dialect: [fault.path[-1] for fault in decode_csv(content, dialect).mismatches] for dialect in Dialect}
    assert faults == {
        Dialect.OPM_1_26: ["displayName"],
        Dialect.NEWEST: ["release"],
        Dialect.OPMKIT: ["release"],
    }


def test_names_that_differ_in_case_are_taken_but_unknown() -> None:
    typed = spec("DisplayName: a, displayName: b, displayname: c, minkubeversion: 1.2.3")
    assert typed.value == {"spec": {"displayName": "c", "minKubeVersion": "1.2.3"}}
    assert [(format_path(field.path), field.nearest) for field in typed.unknown] == [
        ("spec.DisplayName", "displayName"),
        ("spec.displayname", "displayName"),
        ("spec.minkubeversion", "minKubeVersion"),
    ]
    assert spec("DisplayName: a", DecodeMode.OBJECT).value == {}


@pytest.mark.parametrize(
    ("name", "nearest"), [("maintainer", "maintainers"), ("instalModes", "installModes"), ("zzz", "")]
)
def test_unknown_fields_have_a_nearest_name(name: str, nearest: str) -> None:
    (field,) = spec(f"{name}: 1").unknown
    assert field.nearest == nearest


def test_zero_values_are_left_out() -> None:
    zero = spec("displayName: '', version: 0.0.0, provider: {name: ''}, cleanup: {enabled: false}, icon: null")
    assert zero.value == {}
    kept = spec("keywords: [], labels: {}, selector: {}, links: [null], skips: [null]")
    assert kept.value == {"spec": {"keywords": [], "labels": {}, "selector": {}, "links": [{}], "skips": [""]}}


@pytest.mark.parametrize("value", ["null", "''", "1", "01.x", "1.2.3.4"])
def test_versions_that_are_none(value: str) -> None:
    assert [fault.path for fault in spec(f"version: {value}").mismatches] == [("spec", "version")]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("quantity", ["1", 1, 0.5, "1e3", "5Gi", "-.5", "100m", "1E"], ["", "1g", "e", True, "1 Gi", "1ee"]),
        (
            "time",
            ["2024-05-31T12:00:00Z", "2024-05-31T12:00:00.5+02:00"],
            ["", "2024-05-31", 5, "2024-02-31T12:00:00Z"],
        ),
        ("intOrString", [1, "http", ""], [1.5, True, [], 2**31]),
        ("int64", [1.0, 2**63 - 1], [1.5, 2**63, "1", True]),
        ("release", ["1", "rc.1", "0"], ["", "01", "a_b", "1..2", 1, None, str(2**64)]),
        ("bool", [True], ["true", 1, None]),
    ],
)
def test_scalars(kind: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        SCALARS[kind](value, DecodeMode.YAML)
    for value in bad:
        with pytest.raises((TypeError, ValueError)):
            SCALARS[kind](value, DecodeMode.YAML)


@pytest.mark.parametrize("raw", [b"", b"- a", b"a: b: c", b"text"])
def test_what_is_no_mapping_is_a_fault_of_its_own(raw: bytes) -> None:
    typed = decode_csv(Content.read(raw), Dialect.OPMKIT)
    assert (typed.value, [fault.path for fault in typed.mismatches]) == ({}, [()])


def test_no_more_values_are_read_than_any_object_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_VALUES", 3)
    typed = decode_struct({"keywords": [1, 2, 3, 4, 5]}, "ClusterServiceVersionSpec", DecodeMode.YAML)
    assert typed.mismatches == (TypeMismatch(("keywords", 2), "is beyond the first 3 values"),)
