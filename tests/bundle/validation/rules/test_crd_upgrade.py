"""Rules of the validator ``crd-upgrade``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion, Options
from opmkit.bundle.validation.profiles import DEFAULT, profile_named
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_profile
from tests.kit.demo import CRD, FILES, demo, line_of
from tests.kit.opm import FIXTURES
from tests.kit.validation import findings

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "crd-upgrade"
SIZE = "size: {type: integer}"
VERSION = "  - name: v1\n    served: true\n    storage: true\n"
OLDER = "  - name: v1beta1\n    served: true\n    storage: false\n    schema: {openAPIV3Schema: {type: object}}\n"


def upgrade(
    *changes: tuple[str, str], replaced: str = FILES[CRD], olm: OlmVersion | None = None, profile: str = DEFAULT
) -> tuple[BundleView, list[Finding]]:
    """Return the valid bundle with changes, and the findings if it replaces one with this CRD."""
    bundle = replace(demo(*changes), options=Options(replaced_crds=(replaced.encode(),), olm=olm))
    return bundle, [
        finding for finding in run_profile(bundle, profile_named(profile)) if finding.validator == VALIDATOR
    ]


def rules_at(bundle: BundleView, found: list[Finding]) -> list[tuple[str, str]]:
    """Return rule and line of each finding."""
    return [(finding.rule, line_of(bundle, finding)) for finding in found]


def test_an_equal_definition_is_safe() -> None:
    assert upgrade()[1] == []


def test_without_a_replaced_bundle_nothing_is_found() -> None:
    assert findings(demo(("scope: Namespaced", "scope: Cluster")), VALIDATOR) == []


def test_other_definitions_are_not_compared() -> None:
    other = FILES[CRD].replace("demos.demo.example.com", "others.demo.example.com")
    assert upgrade((SIZE, "size: {type: string}"), replaced=other)[1] == []


def test_the_scope_changes() -> None:
    bundle, found = upgrade(("scope: Namespaced", "scope: Cluster"))
    assert rules_at(bundle, found) == [("CRD-UPGRADE-SCOPE", "scope: Cluster")]
    assert found[0].severity is Severity.ERROR
    assert rules_at(*upgrade(("scope: Namespaced", "scope: Cluster"), olm=OlmVersion.V0)) == rules_at(bundle, found)


@pytest.mark.parametrize("olm", [None, *OlmVersion])
def test_a_stored_version_is_dropped(olm: OlmVersion | None) -> None:
    bundle, found = upgrade(("name: v1\n", "name: v2\n"), olm=olm)
    assert rules_at(bundle, found) == [("CRD-UPGRADE-STORED-VERSION", "versions:")]
    assert found[0].message == "version v1 is removed, but objects may be stored in it"
    assert found[0].subject == "demos.demo.example.com"


def test_a_field_is_removed() -> None:
    bundle, found = upgrade((f"              {SIZE}\n", ""))
    assert ("CRD-UPGRADE-FIELD-REMOVED", "properties:") in rules_at(bundle, found)
    assert "v1: ^.spec.size: the field is removed" in [finding.message for finding in found]


def test_a_property_changes() -> None:
    bundle, found = upgrade((SIZE, "size: {type: string}"))
    assert rules_at(bundle, found) == [
        ("CRD-UPGRADE-PROPERTY", "size: {type: string}"),
        ("CRD-UPGRADE-EXISTING-OBJECTS", "size: {type: string}"),
    ]
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING]


@pytest.mark.parametrize(
    ("olm", "rule"), [(OlmVersion.V1, "CRD-UPGRADE-PROPERTY"), (OlmVersion.V0, "CRD-UPGRADE-EXISTING-OBJECTS")]
)
def test_only_the_rules_of_one_olm_run(olm: OlmVersion, rule: str) -> None:
    assert [finding.rule for finding in upgrade((SIZE, "size: {type: string}"), olm=olm)[1]] == [rule]


def test_served_versions_differ() -> None:
    older = OLDER.replace("type: object", "type: object, nullable: true")
    _, found = upgrade((VERSION, older + VERSION))
    by_rule = {finding.rule: finding.message for finding in found}
    assert by_rule["CRD-UPGRADE-SERVED-VERSIONS"] == "v1beta1 -> v1: ^: nullable true is removed"
    assert "CRD-UPGRADE-PROPERTY" not in by_rule
    assert upgrade((VERSION, older.replace("served: true", "served: false") + VERSION))[1] == []


@pytest.mark.parametrize("profile", ["opm", "operator-sdk", "community", "all"])
def test_the_rules_run_in_each_profile(profile: str) -> None:
    assert "CRD-UPGRADE-SCOPE" in {
        finding.rule for finding in upgrade(("scope: Namespaced", "scope: Cluster"), profile=profile)[1]
    }


def test_undecodable_definitions_are_ignored() -> None:
    assert upgrade(replaced="{")[1] == []
    assert upgrade(replaced="kind: CustomResourceDefinition\nspec: 1\nmetadata: {name: demos.demo.example.com}\n")[1]


def test_other_conversions_are_not_hard_coded() -> None:
    bundle = demo(("  versions:\n", "  conversion: {strategy: None}\n  versions:\n"))
    assert "CRD-CONVERSION-HARD-CODED" not in {finding.rule for finding in findings(bundle, "opmkit")}


def test_every_rule_is_documented() -> None:
    page = (FIXTURES.parent / "docs" / "validation.md").read_text()
    for rule in validators()[VALIDATOR]:
        assert f"`{rule.id}`" in page
        assert rule.explanation
        assert rule.bad
        assert rule.good
