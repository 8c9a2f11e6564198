"""Profiles: order of the validators, end of the run and reported findings."""

from __future__ import annotations

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.bundle_view import BundleView
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import OPTIONAL, PROFILES, UnknownName, profile_named
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_profile
from tests.kit.validation import view

CSV = """\
kind: ClusterServiceVersion
apiVersion: operators.coreos.com/v1alpha1
metadata: {name: demo.v1.0.0, annotations: {certified: true}}
spec: {version: 1.0.0, minKubeVersion: '1.16'}
"""
INVALID = {"manifests/csv.yaml": CSV, "manifests/README.md": "text", "metadata/annotations.yaml": "annotations: {}"}


def validators_with_findings(profile: str, compat: Compat = Compat.OPMKIT, optional: tuple[str, ...] = ()) -> set[str]:
    """Return the validators with findings in a bundle that has a problem for each of them."""
    return {finding.validator for finding in run_profile(view(INVALID, compat), profile_named(profile), optional)}


@pytest.mark.parametrize("compat", Compat)
def test_opm_validates_manifests_only_if_the_format_is_valid(compat: Compat) -> None:
    assert validators_with_findings("opm", compat) == {"format"}


def test_opm_reports_only_errors() -> None:
    valid_format = {**INVALID, "metadata/annotations.yaml": _annotations(), "manifests/README.md": "kind: ConfigMap"}
    findings = run_profile(view(valid_format), profile_named("opm"))
    assert {finding.validator for finding in findings} == {"opm-content"}
    assert {finding.severity for finding in findings} == {Severity.ERROR}
    sdk_findings = run_profile(view(valid_format), profile_named("operator-sdk"))
    assert Severity.WARNING in {finding.severity for finding in sdk_findings}


def _annotations() -> str:
    keys = {"mediatype": "registry+v1", "manifests": "manifests/", "metadata": "metadata/", "package": "demo"}
    lines = (f"  operators.operatorframework.io.bundle.{key}.v1: {value}\n" for key, value in keys.items())
    return "annotations:\n" + "".join(lines) + "  operators.operatorframework.io.bundle.channels.v1: stable\n"


@pytest.mark.parametrize("compat", Compat)
def test_operator_sdk_ends_if_the_bundle_does_not_load(compat: Compat) -> None:
    assert validators_with_findings("operator-sdk", compat) == {"load"}


def test_profile_all_does_not_end_early() -> None:
    assert {"load", "format", "csv"} <= validators_with_findings("all")


def test_profile_all_runs_all_validators_except_those_on_request() -> None:
    steps = PROFILES["all"].select_steps(Compat.OPMKIT, known=[*validators(), "third-party"])
    names = {name for step in steps for name in step.validators}
    on_request = {"operatorhub", "opm-content-optional", "multiarch", "packagemanifest", "pipeline"}
    on_request |= {"community-pipeline", "operator", "olm-v1", "preflight"}
    assert set(validators()) - names == on_request & set(validators())
    assert "third-party" in names


def test_findings_of_several_validators_are_reported_once() -> None:
    findings = run_profile(view(INVALID), profile_named("all"))
    keys = [(finding.rule, finding.subject, finding.location, finding.message) for finding in findings]
    assert len(keys) == len(set(keys))
    # findings of one validator at the same location are all reported
    assert [finding.rule for finding in findings if finding.validator == "format"].count("ANN-MISSING") == 5


def test_bare_manifests_have_no_format() -> None:
    bundle = BundleView("demo", {"csv.yaml": CSV.encode()}, bare=True)
    assert "format" not in {finding.validator for finding in run_profile(bundle, profile_named("all"))}


def test_optional_validators() -> None:
    with pytest.raises(UnknownName) as caught:
        validators_with_findings("operator-sdk", optional=("nonsense",))
    assert "good-practices" in str(caught.value.hint)
    with pytest.raises(UnknownName):
        profile_named("nonsense")
    names = [
        step.validators
        for step in PROFILES["operator-sdk"].select_steps(Compat.NEWEST, ["good-practices", "multiarch"])
    ]
    assert names[-2:] == [("good-practices",), ("multiarch",)]


def test_suite_labels() -> None:
    suite = {
        compat: [each.name for each in OPTIONAL if "suite" in each.labels(compat) and compat in each.compat]
        for compat in Compat
    }
    assert suite[Compat.OPM_1_26] == ["operatorhub", "alpha-deprecated-apis", "good-practices"]
    newer = ["operatorhubv2", "capabilities", "categories", "alpha-deprecated-apis", "good-practices"]
    assert suite[Compat.NEWEST] == suite[Compat.OPMKIT] == newer


@pytest.mark.parametrize("compat", [Compat.OPM_1_26, Compat.NEWEST])
def test_bundle_objects_of_opm_run_no_rules_with_compat(compat: Compat) -> None:
    steps = PROFILES["opm"].select_steps(compat, ["bundle-objects"])
    assert "object" not in {name for step in steps for name in step.validators}
