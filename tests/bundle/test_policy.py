"""Policies: severities and ignored findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.policy import CatalogSettings, Ignore, InvalidPolicy, Policy, read_policy
from opmkit.bundle.validation.result import ValidationResult

if TYPE_CHECKING:
    from pathlib import Path

RULES = ("CSV-A", "CSV-B", "GP-C")
A = Finding("a", rule="CSV-A", validator="csv", subject="one", file="manifests/csv.yaml", line=3)
B = Finding("b", rule="CSV-B", validator="csv", severity=Severity.WARNING, file="manifests/csv.yaml")
C = Finding("c", rule="GP-C", validator="good-practices", severity=Severity.WARNING, subject="manager")
RESULT = ValidationResult("demo/1.0.0", (A, B, C), "demo.v1.0.0", package="demo")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    return path


def test_policy(tmp_path: Path) -> None:
    text = """
profile: operatorhub
fail-on: warning
severity: {CSV-B: error, CSV-A: off}
ignore:
- {rule: GP-*, bundle: "demo.v1.*", subject: man*, reason: it is small}
- {rule: GP-C, bundle: other, reason: it is not there}
baseline: known.json
optional: [good-practices]
optional-values: {k8s-version: 1.25}
"""
    policy = read_policy(write(tmp_path, text), RULES)
    assert (policy.profile, policy.fail_on, policy.baseline) == ("operatorhub", Severity.WARNING, "known.json")
    assert (policy.optional, policy.optional_values) == (("good-practices",), (("k8s-version", "1.25"),))
    assert [(finding.rule, finding.severity) for finding in policy.apply(RESULT).findings] == [
        ("CSV-B", Severity.ERROR)
    ]


@pytest.mark.parametrize(
    ("ignore", "remaining"),
    [
        ("rule: CSV-A", "CSV-B GP-C"),
        ("rule: CSV-A, subject: two", "CSV-A CSV-B GP-C"),
        ("rule: CSV-*, file: manifests/*", "GP-C"),
        ("rule: '*', bundle: demo/*", ""),
        ("rule: '*', bundle: demo.v2*", "CSV-A CSV-B GP-C"),
        ("rule: '*', package: demo, target: demo/1*", ""),
        ("rule: '*', package: other", "CSV-A CSV-B GP-C"),
        ("rule: '*', channel: stable", "CSV-A CSV-B GP-C"),
    ],
)
def test_ignores(ignore: str, remaining: str, tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, f"ignore: [{{{ignore}, reason: so}}]"), RULES)
    applied = policy.apply(RESULT)
    assert " ".join(finding.rule for finding in applied.findings) == remaining
    assert {allowed.reason for allowed in applied.allowed} <= {"so"}
    assert len(applied.findings) + len(applied.allowed) == len(RESULT.findings)


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ("a: b: c", ":1:5", ""),
        ("- a", ":1:1", "mapping"),
        ("profil: x", ":1:1", "unknown"),
        ("severity:\n  CSV-a: off", ":2:3", "CSV-A"),
        ("severity:\n  CSV-A: fatal", ":2:3", "error or warning"),
        ("ignore:\n- rule: CSV-A", ":2:3", "reason"),
        ("ignore:\n- rule: CSV-A\n  because: x", ":3:3", "unknown"),
        ("ignore:\n- rule: CSV-A\n  reason: ' '", ":2:3", "reason"),
        ("ignore:\n- rule: CVS-*\n  reason: x", ":2:3", "known rule"),
        ("ignore:\n- rule: [CSV-A]\n  reason: x", ":2:3", "string"),
        ("ignore:\n- CSV-A", ":2:3", "mapping"),
        ("severity:\n  1: off", ":2:3", "known rule"),
        ("catalog: [a]", ":1:1", "mapping"),
        ("catalog:\n  digests: true", ":2:3", "unknown"),
        ("catalog:\n  require-digests: 'yes'", ":2:3", "boolean"),
        ("catalog:\n  openshift-version: 4.17", ":2:3", "string"),
        ("catalog:\n  allowed-registries: quay.io", ":2:3", "list"),
        ("catalog: {against: [a]}", ":1:11", "string"),
        ("catalog:\n  allowed-permissions: secrets", ":2:3", "list of strings"),
        ("catalog:\n  allowed-permissions:", ":2:3", "has no value"),
        ("catalog:\n  against: ''", ":2:3", "has no value"),
        ("catalog:\n  against: Quay.io/Up:1", ":2:3", "against is invalid"),
        ("catalog:\n  require-digests: null", ":2:3", "has no value"),
        ("catalog:\n  allowed-registries: []", ":2:3", "is empty"),
        ("catalog:\n  allowed-registries: ['']", ":2:3", "has an empty entry"),
        ("fail-on:", ":1:1", "has no value"),
        ("catalog:", ":1:1", "has no value"),
        ("fail-on: warning\nfail-on: error", ":2:1", "duplicate key 'fail-on'"),
        ("fail-on: error\n---\nfail-on: warning", ":3:1", "several documents"),
        ("fail-on: error\n...\nfail-on: warning\n", ":3:1", "several documents"),
        ("fail-on: error\n...\n}\n", ":3:1", "several documents"),
        ('{"fail-on": "error", "fail-on": "warning"}', ":1:22", "duplicate key 'fail-on'"),
        ('{"severity": {"CSV-A": "off", "CSV-A": "error"}}', ":1:31", "duplicate key 'CSV-A'"),
        ('{"fail-on": "error"}{"fail-on": "warning"}', ":1:21", "several documents"),
        ('{"fail-on": "error"}\nx', ":2:1", "several documents"),
        ("", "", "the policy is empty"),
        ("# nothing yet\n", "", "the policy is empty"),
        ("null", "", "the policy is empty"),
        ("catalog:\n  allowed-permissions: [1]", ":2:3", "list of strings"),
        ("catalog:\n  allowed-permissions:\n  - secrets\n  - demo/secret", ":4:5", 'unknown kind "demo/secret"'),
        ("catalog:\n  allowed-permissions: ['']", ":2:25", 'unknown kind ""'),
        ("catalog:\n  require-signature: ''", ":2:3", "require-signature has no value"),
        ("catalog:\n  allowed-registries: []", ":2:3", "allowed-registries is empty"),
        ("catalog:\n  profile: community", ":2:3", "not a known profile"),
        ("catalog: {profile: [konflux]}", ":1:11", "string"),
        ("ignore: {}\nfail-on: never", ":2:1", "error or warning"),
        ("ignore: CSV-A", ":1:1", "list"),
        ("optional: good-practices", ":1:1", "list"),
        ("profile: [1]", ":1:1", "string"),
        ("fail-on: error\nprofile: operatorhb", ":2:1", "profile is not a known profile"),
        ("optional-values: {a: [1]}", ":1:19", "string"),
    ],
)
def test_invalid_policies_are_located(text: str, location: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidPolicy) as raised:
        read_policy(path, RULES)
    assert str(raised.value).startswith(f"{path}{location}")
    assert message in f"{raised.value} {raised.value.hint!s}"


@pytest.mark.parametrize(
    "text",
    [
        "{fail-on: warning}",
        "%YAML 1.1\n---\nfail-on: warning\n...\n",
        "# comment\n---\nfail-on: warning\n---\n# the end\n",
        '{\n\t"fail-on": "warning"\n}\n',
    ],
)
def test_policies_in_any_style(text: str, tmp_path: Path) -> None:
    assert read_policy(write(tmp_path, text), RULES).fail_on is Severity.WARNING


@pytest.mark.parametrize(
    ("against", "read"),
    [
        ("quay.io/me/catalog:1", "quay.io/me/catalog:1"),
        ("quay.io/me/catalog", "quay.io/me/catalog:latest"),
        ("docker://quay.io/me/catalog:1", "quay.io/me/catalog:1"),
        ("oci:layout:1", "oci:DIR/layout:1"),
        ("oci-archive:/a.tar", "oci-archive:/a.tar"),
        ("store:a:1", "store:a:1"),
        ("published", "DIR/published"),
        ("./missing", "DIR/missing"),
        ("/srv/catalog", "/srv/catalog"),
    ],
)
def test_published_index_is_relative_to_the_policy(
    against: str, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base" / "published").mkdir(parents=True)
    (tmp_path / "checkout" / "quay.io" / "me" / "catalog:1").mkdir(parents=True)
    (tmp_path / "checkout" / "published").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    settings = read_policy(write(tmp_path / "base", f"catalog: {{against: {against}}}"), RULES).catalog
    assert settings.against == read.replace("DIR", str(tmp_path / "base"))


def test_policy_without_settings(tmp_path: Path) -> None:
    assert read_policy(write(tmp_path, "{}"), RULES).apply(RESULT) == RESULT


def test_settings_for_catalogs(tmp_path: Path) -> None:
    text = """
catalog:
  openshift-version: "4.17"
  require-digests: true
  allowed-registries: [quay.io/me/]
  related-images: true
  against: quay.io/me/catalog:1
  fragment: false
  require-signature: cosign.pub
  allowed-permissions: [workloads, demo/secrets]
"""
    settings = read_policy(write(tmp_path, text), RULES).catalog
    assert settings == CatalogSettings(
        "4.17",
        True,
        ("quay.io/me/",),
        True,
        "quay.io/me/catalog:1",
        False,
        str(tmp_path / "cosign.pub"),
        ("workloads", "demo/secrets"),
    )
    assert read_policy(write(tmp_path, "profile: all"), RULES).catalog == CatalogSettings()


def test_entries_that_allow_nothing(tmp_path: Path) -> None:
    text = """
ignore:
- {rule: CSV-A, reason: it is there}
- {rule: CSV-A, subject: two, reason: it is not there}
- {rule: GP-C, reason: "a rule of something else"}
- {rule: CSV-B, target: other, reason: another target}
"""
    path = write(tmp_path, text)
    (unused,) = read_policy(path, RULES).unused(replace(RESULT, findings=(A,)), ("CSV-A", "CSV-B"))
    assert (unused.location, str(unused)) == (f"{path}:4:3", "rule CSV-A, subject two")
    assert Policy(ignores=(Ignore("CSV-A", "ignored on the command line"),)).unused(RESULT, ()) == ()
