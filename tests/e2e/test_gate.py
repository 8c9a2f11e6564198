"""The gate: policies and reports of ``opm validate``, for catalogs of every form and from real registries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm

CYCLE = FIXTURES / "catalogs" / "invalid" / "cycle.yaml"
POLICY = """
severity: {FBC-ENTRY-ORDER: off}
ignore:
- rule: FBC-GRAPH
  package: demo
  channel: alp*
  reason: fixed in the next release
- rule: FBC-ICON-*
  reason: there is no icon
- rule: CSV-REPLACES-FORMAT
  reason: for bundles
- rule: GATE-*
  target: another-catalog
  reason: not this one
"""


@pytest.fixture
def broken(opm: Opm) -> Path:
    """Return a catalog with one error and one warning on line 9."""
    directory = opm.directory / "broken"
    directory.mkdir()
    (directory / "demo.yaml").write_bytes(CYCLE.read_bytes())
    return directory


def attempt(opm: Opm, *flags: str) -> CompletedProcess[str]:
    return opm.attempt("validate", "broken", *flags)


def test_policy_allows_findings_with_reasons(opm: Opm, broken: Path) -> None:
    assert attempt(opm).returncode == 1
    (opm.directory / ".opm-validate.yaml").write_text(POLICY)
    done = attempt(opm)
    assert (done.returncode, done.stdout) == (0, "")
    allowed, reason, unused = done.stderr.splitlines()
    assert allowed.startswith('broken/demo.yaml:9: allowed: package "demo", channel "alpha": detected cycle')
    assert allowed.endswith(" [FBC-GRAPH]")
    assert reason == "  reason: fixed in the next release"
    nothing = "the policy allows nothing: no finding matches rule FBC-ICON-*"
    assert unused == f"Warning: .opm-validate.yaml:8:3: {nothing}"
    report = json.loads(attempt(opm, "-o", "json").stdout)
    assert (report["passed"], report["findings"]) == (True, [])
    (entry,) = report["allowed"]
    assert (entry["rule"], entry["reason"]) == ("FBC-GRAPH", "fixed in the next release")
    assert report["notices"] == [f".opm-validate.yaml:8:3: {nothing}"]
    strict = attempt(opm, "--fail-on", "warning")
    assert strict.returncode == 1
    assert f"Error: broken: invalid catalog: .opm-validate.yaml:8:3: {nothing}" in strict.stderr


def test_one_policy_serves_bundles_and_catalogs(opm: Opm, broken: Path) -> None:
    policy = "ignore:\n- {rule: FBC-GRAPH, reason: a}\n- {rule: CSV-ICON-IMAGE, reason: b}\n"
    (opm.directory / "policy.yaml").write_text(policy)
    assert attempt(opm, "--config", "policy.yaml").returncode == 0
    opm.build_bundle("0.1.0", "oci:image:0.1.0")
    done = opm.attempt("bundle", "validate", "oci:image:0.1.0", "--config", "policy.yaml", "-o", "markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("### Validation passed: 1 bundle")
    assert "policy allows nothing" not in done.stderr


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("ignore: [{rule: FBC-GRAPH}]", "policy.yaml:1:10: ignore.0 has no rule or no reason"),
        ("ignore: [{rule: FBC-GRAF, reason: x}]", "policy.yaml:1:10: ignore.0 is not a known rule"),
        ("catalog: {fragment: 1}", "policy.yaml:1:11: catalog.fragment is not a boolean"),
        ("ignore: [\x1b[31m", "policy.yaml:1:"),
        ("catalog: {openshift-version: '4'}", "invalid value of --openshift-version"),
    ],
)
def test_invalid_policies_are_errors(opm: Opm, broken: Path, policy: str, message: str) -> None:
    (opm.directory / "policy.yaml").write_text(policy)
    done = attempt(opm, "--config", "policy.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert "\x1b" not in done.stderr


def test_settings_of_the_policy_are_defaults_of_flags(opm: Opm) -> None:
    catalog = str(FIXTURES / "catalogs" / "valid")
    settings = "{require-digests: true, allowed-registries: [registry.example.com/], against: published}"
    (opm.directory / ".opm-validate.yaml").write_text(f"catalog: {settings}\n")
    (opm.directory / "published").mkdir()
    report = json.loads(opm.attempt("validate", catalog, "-o", "json").stdout)
    assert {finding["rule"] for finding in report["findings"]} == {"GATE-DIGEST", "GATE-REGISTRY"}
    assert report["notices"] == ["published: the published index has no packages"]
    flags = ("--allowed-registries", "quay.io/", "--ignore", "GATE-DIGEST")
    report = json.loads(opm("validate", catalog, "-o", "json", *flags))
    assert {entry["reason"] for entry in report["allowed"]} == {"ignored on the command line"}
    assert opm.attempt("validate", catalog, "--ignore", "FBC-NO").returncode == 1


def test_reports_of_catalogs(opm: Opm, broken: Path) -> None:
    forms = ("sarif", "junit", "github", "markdown", "yaml")
    reports = {form: attempt(opm, "--output", form) for form in forms}
    assert {done.returncode for done in reports.values()} == {1}
    (run,) = json.loads(reports["sarif"].stdout)["runs"]
    error, warning = run["results"]
    assert (error["ruleId"], warning["ruleId"]) == ("FBC-GRAPH", "FBC-ENTRY-ORDER")
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "broken/demo.yaml"},
        "region": {"startLine": 9},
    }
    assert all(rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])
    suites = ET.fromstring(reports["junit"].stdout)
    assert (suites.get("name"), suites.get("tests"), suites.get("failures")) == ("catalog validation", "2", "1")
    annotations = reports["github"].stdout.splitlines()
    assert annotations[0].startswith('::error title=FBC-GRAPH,file=broken/demo.yaml,line=9::package "demo", ')
    assert reports["markdown"].stdout.startswith("### Validation failed: 1 catalog, 1 error, 1 warning\n")
    assert "| error | `FBC-GRAPH` | `demo.yaml:9` | `package" in reports["markdown"].stdout
    for form in ("sarif", "junit", "github", "markdown"):
        assert reports[form].stderr.startswith("Error: broken: invalid catalog: demo.yaml:9: package"), form


@pytest.mark.parametrize("form", ["sarif", "junit", "github", "markdown", "json", "yaml", "text"])
def test_reports_of_valid_catalogs(opm: Opm, form: str) -> None:
    done = opm.attempt("validate", str(FIXTURES / "catalogs" / "valid"), "-o", form)
    assert (done.returncode, done.stderr) == (0, "")
    if form == "sarif":
        log: dict[str, Any] = json.loads(done.stdout)
        assert log["runs"][0]["results"] == []
