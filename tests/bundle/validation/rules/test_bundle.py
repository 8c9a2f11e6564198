"""Rules of the validator ``bundle``."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.rules.bundle import MAX_SIZE
from tests.kit.demo import CRD, CSV, FILES, demo, line_of
from tests.kit.validation import count_findings, findings, view

IMAGE = FILES[CSV].partition("    image: ")[2].partition("\n")[0]
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {}\n"
OWNED = "    - name: demos.demo.example.com\n      version: v1\n      kind: Demo\n"

# Rule, change, additional files, beginning of the reported line.
CASES = [
    ("BUNDLE-CRD-DUPLICATE", ("", ""), {"manifests/second.yaml": FILES[CRD]}, "- name: v1"),
    ("BUNDLE-OWNED-CRD-MISSING", ("      kind: Demo\n", "      kind: Dmo\n"), {}, "- name: demos.demo.example.com"),
    ("BUNDLE-CRD-NOT-OWNED", (OWNED, OWNED.replace("kind: Demo", "kind: Dmo")), {}, "- name: v1"),
    ("BUNDLE-SA-CONFLICT", ("", ""), {"manifests/account.yaml": ACCOUNT.format("demo-account")}, "name: demo-account"),
    ("BUNDLE-RELATED-IMAGE-EMPTY", (f"manager\n    image: {IMAGE}", "manager\n    image: ''"), {}, "- name: manager"),
    ("BUNDLE-RELATED-IMAGE-INVALID", ("manager\n    image: quay", "manager\n    image: https://quay"), {}, "image:"),
    ("BUNDLE-RELATED-IMAGE-INVALID", ("manager\n    image: quay.io/e", "manager\n    image: quay.io/E"), {}, "image:"),
    ("BUNDLE-RELEASE-NAME", ("  version: 1.2.3", "  version: 1.2.3\n  release: '1'"), {}, "name: demo.v1.2.3"),
]


@pytest.mark.parametrize(("rule", "change", "more", "line"), CASES)
def test_each_rule_reports_the_line(rule: str, change: tuple[str, str], more: dict[str, str], line: str) -> None:
    bundle = demo(*([change] if change[0] else []), more=more)
    (found,) = (finding for finding in findings(bundle, "bundle") if finding.rule == rule)
    assert line_of(bundle, found).startswith(line)


def noise(size: int) -> bytes:
    """Return an incompressible YAML comment of a size in bytes."""
    return b"# " + random.Random(0).randbytes(size // 2).hex().encode()


@pytest.mark.parametrize(
    ("size", "rules"),
    [(100_000, []), (1_250_000, ["BUNDLE-SIZE-NEAR"]), (1_700_000, ["BUNDLE-SIZE-MAX"])],
)
def test_size_limits(size: int, rules: list[str]) -> None:
    bundle = demo(more={"manifests/big.yaml": noise(size) + b"\nkind: ConfigMap"})
    found = findings(bundle, "bundle")
    assert [(finding.rule, finding.subject) for finding in found] == [(rule, "demo.v1.2.3") for rule in rules]


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("version", ["  version: v1\n", "  versions: []\n", ""])
def test_a_v1beta1_crd_without_versions_must_be_owned(version: str, compat: Compat) -> None:
    crd = (
        "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n"
        "metadata: {name: extras.demo.example.com}\nspec:\n  group: demo.example.com\n"
        f"{version}  names: {{kind: Extra, plural: extras}}\n"
    )
    counts = count_findings(demo(more={"manifests/extra.yaml": crd}, compat=compat), "bundle")
    subject = f"demo.example.com/{'v1' if version.startswith('  version:') else ''}, Kind=Extra"
    assert counts == Counter({("BUNDLE-CRD-NOT-OWNED", "error", subject): 1})


def test_only_opmkit_includes_the_metadata_in_the_size() -> None:
    more = {"manifests/big.yaml": noise(1_000_000), "metadata/big.yaml": noise(1_000_000)}
    assert [finding.rule for finding in findings(demo(more=more), "bundle")] == ["BUNDLE-SIZE-MAX"]
    assert findings(demo(more=more, compat=Compat.NEWEST), "bundle") == []
    assert MAX_SIZE == 1024 * 1024


def test_every_rule_is_tested_and_documented() -> None:
    rules = validators()["bundle"]
    sizes = {"BUNDLE-SIZE-MAX", "BUNDLE-SIZE-NEAR", "BUNDLE-SIZE-UNKNOWN"}
    assert {rule.id for rule in rules} == {rule for rule, *_ in CASES} | sizes
    assert all(rule.explanation and rule.bad and rule.good for rule in rules)


@pytest.mark.parametrize("compat", Compat)
def test_a_valid_bundle_has_no_findings(compat: Compat) -> None:
    assert findings(demo(compat=compat), "bundle") == []


def test_a_duplicate_owned_crd_is_missing_only_for_the_go_validators() -> None:
    change = (OWNED, OWNED + OWNED)
    assert count_findings(demo(change), "bundle") == Counter()
    subject = "demo.example.com/v1, Kind=Demo"
    recorded = Counter({("BUNDLE-OWNED-CRD-MISSING", "error", subject): 1})
    assert count_findings(demo(change, compat=Compat.NEWEST), "bundle") == recorded


def test_deployments_without_account_do_not_conflict_with_an_account_without_name() -> None:
    change = ("              serviceAccountName: demo-account\n", "")
    more = {"manifests/account.yaml": ACCOUNT.format("''")}
    assert findings(demo(change, more=more), "bundle") == []
    assert count_findings(demo(change, more=more, compat=Compat.OPM_1_26), "bundle").total() == 1


def test_the_name_of_a_release_contains_the_package_of_the_annotations() -> None:
    changes = [("  version: 1.2.3", "  version: 1.2.3\n  release: '1'"), ("name: demo.v1.2.3", "name: demo-v1.2.3-1")]
    assert findings(demo(*changes), "bundle") == []
    assert count_findings(demo(*changes, compat=Compat.NEWEST), "bundle").total() == 1
    assert findings(demo(*changes, compat=Compat.OPM_1_26), "bundle") == []


@pytest.mark.parametrize("files", [{}, {"manifests/csv.yaml": ""}])
def test_an_empty_bundle_has_an_unknown_size(files: dict[str, str]) -> None:
    assert [finding.rule for finding in findings(view(files), "bundle")] == ["BUNDLE-SIZE-UNKNOWN"]


def test_a_bundle_without_csv_has_no_findings() -> None:
    assert findings(view({CRD: FILES[CRD]}), "bundle") == []
