"""Decoding of values into API types, in each mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.api_types import decode
from opmkit.bundle.api_types.decode import SCALARS, Decoded, DecodeMode, Tables, TypeMismatch, decode_struct
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import decode_csv
from opmkit.documents.content import Content
from opmkit.documents.fields import format_path

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue


def decode_spec(text: str, mode: DecodeMode | None = None, compat: Compat = Compat.NEWEST) -> Decoded:
    return decode_csv(Content.read(f"spec: {{{text}}}".encode()), compat, mode)


def test_all_mismatches_are_reported_with_their_paths() -> None:
    decoded = decode_spec(
        "keywords: one, links: {name: a}, installModes: [{type: x, supported: 'true'}, 7], version: latest,"
        " install: {spec: {deployments: [{spec: {replicas: few, template: {spec: {containers: ["
        "{resources: {limits: {cpu: 1 core}}, ports: [{containerPort: 80.5}, {containerPort: 9999999999}]}]}}}}]}}"
    )
    container = ("spec", "install", "spec", "deployments", 0, "spec", "template", "spec", "containers", 0)
    assert [(format_path(mismatch.path), mismatch.problem) for mismatch in decoded.mismatches] == [
        ("spec.install.spec.deployments[0].spec.replicas", "is a string, not an integer"),
        (format_path((*container, "ports", 0, "containerPort")), "is a number, not an integer"),
        (format_path((*container, "ports", 1, "containerPort")), "is 9999999999, which does not fit in 32 bits"),
        (
            format_path((*container, "resources", "limits", "cpu")),
            "is '1 core', which is not a valid quantity such as 100m, 1.5 or 32Mi",
        ),
        ("spec.installModes[0].supported", "is a string, not a boolean"),
        ("spec.installModes[1]", "is a number, not a mapping"),
        ("spec.keywords", "is a string, not a list"),
        ("spec.links", "is a mapping, not a list"),
        ("spec.version", "is 'latest', which is not a valid version such as 1.2.3"),
    ]
    assert decoded.has_mismatch("spec", "links")
    assert not decoded.has_mismatch("spec", "icon")


@pytest.mark.parametrize("value", ["1", "1.5", "true"])
def test_only_yaml_mode_accepts_other_scalars_as_strings(value: str) -> None:
    accepted = decode_spec(f"displayName: {value}, labels: {{a: {value}}}", DecodeMode.YAML)
    assert accepted.value == {"spec": {"displayName": value, "labels": {"a": value}}}
    for mode in (DecodeMode.JSON, DecodeMode.OBJECT):
        rejected = decode_spec(f"displayName: {value}, labels: {{a: {value}}}", mode)
        assert [mismatch.path[1:] for mismatch in rejected.mismatches] == [("displayName",), ("labels", "a")]
        assert rejected.mismatches[0].hint == "Put it in quotes."


def test_opm_1_26_decodes_json_in_json_mode_and_has_no_release() -> None:
    content = Content.read(b'{"spec": {"displayName": 1, "release": "01"}}')
    mismatches = {compat: decode_csv(content, compat).mismatches for compat in Compat}
    assert {compat: [mismatch.path[-1] for mismatch in found] for compat, found in mismatches.items()} == {
        Compat.OPM_1_26: ["displayName"],
        Compat.NEWEST: ["release"],
        Compat.OPMKIT: ["release"],
    }


def test_names_that_differ_in_case_are_decoded_but_unknown() -> None:
    decoded = decode_spec("DisplayName: a, displayName: b, displayname: c, minkubeversion: 1.2.3")
    assert decoded.value == {"spec": {"displayName": "c", "minKubeVersion": "1.2.3"}}
    assert [(format_path(field.path), field.nearest) for field in decoded.unknown] == [
        ("spec.DisplayName", "displayName"),
        ("spec.displayname", "displayName"),
        ("spec.minkubeversion", "minKubeVersion"),
    ]
    assert decode_spec("DisplayName: a", DecodeMode.OBJECT).value == {}


@pytest.mark.parametrize(
    ("name", "nearest"), [("maintainer", "maintainers"), ("instalModes", "installModes"), ("zzz", "")]
)
def test_unknown_fields_have_a_nearest_name(name: str, nearest: str) -> None:
    (field,) = decode_spec(f"{name}: 1").unknown
    assert field.nearest == nearest


def test_zero_values_are_absent() -> None:
    zero = decode_spec("displayName: '', version: 0.0.0, provider: {name: ''}, cleanup: {enabled: false}, icon: null")
    assert zero.value == {}
    empty = decode_spec("keywords: [], labels: {}, selector: {}, links: [null], skips: [null]")
    assert empty.value == {"spec": {"keywords": [], "labels": {}, "selector": {}, "links": [{}], "skips": [""]}}


@pytest.mark.parametrize("value", ["null", "''", "1", "01.x", "1.2.3.4"])
def test_invalid_versions_are_mismatches(value: str) -> None:
    assert [mismatch.path for mismatch in decode_spec(f"version: {value}").mismatches] == [("spec", "version")]


@pytest.mark.parametrize(
    ("kind", "valid", "invalid"),
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
def test_scalars(kind: str, valid: list[JsonValue], invalid: list[JsonValue]) -> None:
    for value in valid:
        SCALARS[kind](value, DecodeMode.YAML)
    for value in invalid:
        with pytest.raises((TypeError, ValueError)):
            SCALARS[kind](value, DecodeMode.YAML)


@pytest.mark.parametrize("raw", [b"", b"- a", b"a: b: c", b"text"])
def test_a_document_that_is_not_a_mapping_is_a_mismatch(raw: bytes) -> None:
    decoded = decode_csv(Content.read(raw), Compat.OPMKIT)
    assert (decoded.value, [mismatch.path for mismatch in decoded.mismatches]) == ({}, [()])


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_VALUES", 3)
    decoded = decode_struct({"keywords": [1, 2, 3, 4, 5]}, "ClusterServiceVersionSpec", DecodeMode.YAML)
    assert decoded.mismatches == (TypeMismatch(("keywords", 2), "is beyond the first 3 values"),)


def test_fields_of_later_releases_are_unknown_to_opm_1_26() -> None:
    container: JsonValue = {"name": "a", "resizePolicy": "invalid"}
    newest = decode_struct(container, "Container", DecodeMode.YAML)
    older = decode_struct(container, "Container", DecodeMode.YAML, Tables.OPM_1_26)
    assert [mismatch.path[-1] for mismatch in newest.mismatches] == ["resizePolicy"]
    assert (older.mismatches, [field.path[-1] for field in older.unknown]) == ((), ["resizePolicy"])
