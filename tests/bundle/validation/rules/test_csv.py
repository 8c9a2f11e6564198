"""Rules of the validator ``csv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.rule_registry import validators
from tests.kit.demo import CSV, FILES, demo, line_of
from tests.kit.validation import count_findings, findings

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding

EXAMPLE = '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]'
WITHOUT_ANNOTATIONS = (FILES[CSV].partition("  annotations:")[2].partition("spec:")[0], " {}\n")

# Rule, change, beginning of the reported line.
CASES = [
    ("CSV-NAME-FORMAT", ("name: demo.v1.2.3", "name: Demo.v1.2.3"), "name: Demo"),
    ("CSV-NAME-FORMAT", ("  name: demo.v1.2.3\n", ""), "metadata:"),
    ("CSV-REPLACES-FORMAT", ("replaces: demo.v1.2.2", "replaces: demo:1.2.2"), "replaces:"),
    ("CSV-NO-ANNOTATIONS", WITHOUT_ANNOTATIONS, "annotations:"),
    ("CSV-NO-EXAMPLES", (f"    alm-examples: '{EXAMPLE}'\n", ""), "annotations:"),
    ("CSV-BOTH-EXAMPLES", ("    capabilities:", "    olm.examples: '[]'\n    capabilities:"), "olm.examples:"),
    ("CSV-EXAMPLES-JSON", (EXAMPLE, "[1,]"), "alm-examples:"),
    ("CSV-EXAMPLES-JSON", (EXAMPLE, " "), "alm-examples:"),
    ("CSV-EXAMPLES-JSON", (EXAMPLE, "[NaN]"), "alm-examples:"),
    ("CSV-EXAMPLES-JSON", (EXAMPLE, "[" * 100_000), "alm-examples:"),
    ("CSV-EXAMPLES-DECODE", (EXAMPLE, "{}"), "alm-examples:"),
    ("CSV-EXAMPLES-DECODE", (EXAMPLE, "[1]"), "alm-examples:"),
    ("CSV-EXAMPLES-DECODE", (EXAMPLE, '[{"kind": ""}]'), "alm-examples:"),
    ("CSV-EXAMPLES-DECODE", (EXAMPLE, '[{"kind": "Demo", "apiVersion": "a/b/c"}]'), "alm-examples:"),
    ("CSV-OWNED-CRD-NAME", ("- name: demos.demo.example.com", "- name: demos"), "- name: demos"),
    ("CSV-EXAMPLE-NOT-PROVIDED", ("demo.example.com/v1", "other.example.com/v1"), "alm-examples:"),
    ("CSV-PROVIDED-NO-EXAMPLE", (EXAMPLE, "[]"), "- name: demos.demo.example.com"),
    ("CSV-INSTALLMODES-MISSING", ("  installModes:\n", "  installModes: []\n  x:\n"), "installModes: []"),
    ("CSV-INSTALLMODES-NONE", ("supported: true", "supported: false"), "installModes:"),
    ("CSV-INSTALLMODES-DUPLICATE", ("type: OwnNamespace", "type: AllNamespaces"), "- type: AllNamespaces"),
    ("CSV-CONVERSION-ALLNAMESPACES", ("supported: false", "supported: true"), "conversionCRDs:"),
    ("CSV-REQUIRED-FIELD", ("displayName: Demo", "displayName: ''"), "displayName: ''"),
    ("CSV-REQUIRED-FIELD", ("    strategy: deployment\n", ""), "install:"),
    ("ANNOTATION-KEY-CASE", ("olm.skipRange", "olm.skiprange"), "olm.skiprange:"),
    ("CSV-OLM-PROPERTIES", ("    capabilities:", "    olm.properties: '[]'\n    capabilities:"), "olm.properties:"),
    ("CSV-APIVERSION", ("apiVersion: operators.coreos.com/v1alpha1\n", ""), "kind: ClusterServiceVersion"),
    ("CSV-KIND", ("operators.coreos.com/v1alpha1", "a/b/c"), "apiVersion: a/b/c"),
    ("MINKUBE-MISSING", ("minKubeVersion: 1.27.0", "minKubeVersion: ' '"), "minKubeVersion: ' '"),
    ("MINKUBE-INVALID", ("minKubeVersion: 1.27.0", "minKubeVersion: v1.27"), "minKubeVersion: v1.27"),
]


def findings_of_rule(rule: str, *changes: tuple[str, str], compat: Compat = Compat.OPMKIT) -> list[tuple[Finding, str]]:
    """Return the findings of a rule with the reported lines."""
    bundle = demo(*changes, compat=compat)
    return [(finding, line_of(bundle, finding)) for finding in findings(bundle, "csv") if finding.rule == rule]


@pytest.mark.parametrize(("rule", "change", "line"), CASES)
def test_each_rule_reports_the_line(rule: str, change: tuple[str, str], line: str) -> None:
    ((finding, reported_line),) = findings_of_rule(rule, change)
    assert reported_line.startswith(line)
    assert finding.hint


def test_every_rule_is_tested_and_documented() -> None:
    rules = validators()["csv"]
    assert {rule.id for rule in rules} == {rule for rule, _, _ in CASES}
    assert all(rule.explanation and rule.bad and rule.good for rule in rules)


@pytest.mark.parametrize("compat", Compat)
def test_a_valid_bundle_has_no_findings(compat: Compat) -> None:
    assert findings(demo(compat=compat), "csv") == []


def test_required_fields_have_the_name_of_the_go_validators_in_their_modes() -> None:
    change = ("displayName: Demo\n", "displayName:\n")
    assert [finding.subject for finding, _ in findings_of_rule("CSV-REQUIRED-FIELD", change)] == ["spec.displayName"]
    newest = findings_of_rule("CSV-REQUIRED-FIELD", change, compat=Compat.NEWEST)
    assert [finding.subject for finding, _ in newest] == ["Spec.DisplayName"]


def test_a_field_of_the_wrong_type_is_not_missing_and_stops_the_go_validators() -> None:
    changes = [
        ("displayName: Demo\n", "displayName: [Demo]\n"),
        ("minKubeVersion: 1.27.0", "minKubeVersion: {}"),
        ("  installModes:\n", "  installModes: all\n  modes:\n"),
        ("replaces: demo.v1.2.2", "replaces: A B"),
    ]
    assert set(count_findings(demo(*changes), "csv")) == {("CSV-REPLACES-FORMAT", "error", "")}
    assert findings(demo(*changes, compat=Compat.NEWEST), "csv") == []


def test_all_invalid_examples_are_reported() -> None:
    change = (EXAMPLE, '[1, {"kind": "Demo"}, {"apiVersion": "v1"}]')
    assert [finding.message.partition(": ")[2] for finding, _ in findings_of_rule("CSV-EXAMPLES-DECODE", change)] == [
        "number 1 is not an object",
        "number 3 has no kind",
    ]
    assert len(findings_of_rule("CSV-EXAMPLES-DECODE", change, compat=Compat.OPM_1_26)) == 1


def test_opm_1_26_does_not_check_the_kubernetes_version() -> None:
    assert findings_of_rule("MINKUBE-MISSING", ("minKubeVersion: 1.27.0", ""), compat=Compat.OPM_1_26) == []
