"""The sequences in which validators run, and what ends them."""

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
UNFORMED = {"manifests/csv.yaml": CSV, "manifests/README.md": "text", "metadata/annotations.yaml": "annotations: {}"}


def ran(profile: str, compat: Compat = Compat.OPMKIT, optional: tuple[str, ...] = ()) -> set[str]:
    """The validators that found something in a bundle with a fault for each."""
    return {one.validator for one in run_profile(view(UNFORMED, compat), profile_named(profile), optional)}


@pytest.mark.parametrize("compat", Compat)
def test_opm_looks_at_manifests_only_if_the_format_is_right(compat: Compat) -> None:
    assert ran("opm", compat) == {"format"}


def test_opm_shows_errors_alone() -> None:
    formed = {**UNFORMED, "metadata/annotations.yaml": _annotations(), "manifests/README.md": "kind: ConfigMap"}
    found = run_profile(view(formed), profile_named("opm"))
    assert {one.validator for one in found} == {"opm-content"}
    assert {one.severity for one in found} == {Severity.ERROR}
    assert Severity.WARNING in {one.severity for one in run_profile(view(formed), profile_named("operator-sdk"))}


def _annotations() -> str:
    keys = {"mediatype": "registry+v1", "manifests": "manifests/", "metadata": "metadata/", "package": "demo"}
    lines = (f"  operators.operatorframework.io.bundle.{key}.v1: {value}\n" for key, value in keys.items())
    return "annotations:\n" + "".join(lines) + "  operators.operatorframework.io.bundle.channels.v1: stable\n"


@pytest.mark.parametrize("compat", Compat)
def test_operator_sdk_ends_if_the_bundle_cannot_be_loaded(compat: Compat) -> None:
    assert ran("operator-sdk", compat) == {"load"}


def test_nothing_ends_the_profile_of_everything() -> None:
    assert {"load", "format", "csv"} <= ran("all")


def test_the_profile_of_everything_has_all_rules_but_those_asked_for() -> None:
    steps = PROFILES["all"].select_steps(Compat.OPMKIT, known=[*validators(), "third-party"])
    names = {name for step in steps for name in step.validators}
    apart = {"operatorhub", "opm-content-optional", "multiarch", "packagemanifest"}
    assert set(validators()) - names == apart & set(validators())
    assert "third-party" in names


def test_what_validators_repeat_is_told_once_by_ours_alone() -> None:
    found = run_profile(view(UNFORMED), profile_named("all"))
    places = [(one.rule, one.subject, one.location, one.message) for one in found]
    assert len(places) == len(set(places))
    # the four annotations that are missing have one place, and each is told
    assert [one.rule for one in found if one.validator == "format"].count("ANN-MISSING") == 5


def test_a_directory_of_manifests_has_no_format() -> None:
    bundle = BundleView("demo", {"csv.yaml": CSV.encode()}, bare=True)
    assert "format" not in {one.validator for one in run_profile(bundle, profile_named("all"))}


def test_optional_validators() -> None:
    with pytest.raises(UnknownName) as caught:
        ran("operator-sdk", optional=("nonsense",))
    assert "good-practices" in str(caught.value.hint)
    with pytest.raises(UnknownName):
        profile_named("nonsense")
    names = [
        step.validators
        for step in PROFILES["operator-sdk"].select_steps(Compat.NEWEST, ["good-practices", "multiarch"])
    ]
    assert names[-2:] == [("good-practices",), ("multiarch",)]


def test_which_optional_validators_there_are_and_how_they_are_selected() -> None:
    suite = {
        compat: [one.name for one in OPTIONAL if "suite" in one.labels(compat) and compat in one.compat]
        for compat in Compat
    }
    assert suite[Compat.OPM_1_26] == ["operatorhub", "alpha-deprecated-apis", "good-practices"]
    newer = ["operatorhubv2", "capabilities", "categories", "alpha-deprecated-apis", "good-practices"]
    assert suite[Compat.NEWEST] == suite[Compat.OPMKIT] == newer


@pytest.mark.parametrize("compat", [Compat.OPM_1_26, Compat.NEWEST])
def test_the_bundle_objects_of_opm_find_nothing_as_in_the_reference(compat: Compat) -> None:
    steps = PROFILES["opm"].select_steps(compat, ["bundle-objects"])
    assert "object" not in {name for step in steps for name in step.validators}
