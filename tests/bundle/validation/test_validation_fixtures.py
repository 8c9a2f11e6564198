"""The bundles in fixtures/broken-bundles: expected findings and locations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import PROFILES, profile_named
from opmkit.bundle.validation.rule_registry import rules
from opmkit.bundle.validation.run import run_profile
from tests.kit.broken import BASE, Broken, broken_bundles
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLES = broken_bundles()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("compat", Compat)
def test_the_valid_bundle_has_no_findings(profile: str, compat: Compat) -> None:
    optional = [name for name in PROFILES[profile].optional if name not in ("multiarch", "operatorhub")]
    chosen = [name for name in optional if compat in PROFILES[profile].optional[name].compat]
    found = run_profile(view(BASE, compat), profile_named(profile), chosen)
    dependencies = 2 if "olm-v1" in {*chosen, profile} and compat is Compat.OPMKIT else 0  # which OLM v1 refuses
    assert [finding.rule for finding in found] == ["OLM-V1-DEPENDENCY"] * dependencies


@pytest.mark.slow
@pytest.mark.parametrize("broken", BUNDLES, ids=str)
def test_each_bundle_has_exactly_the_expected_findings(broken: Broken) -> None:
    expected = broken.expected["findings"]
    assert expected[0]["rule"].lower() == broken.name
    found = Counter((finding.rule, finding.severity.value, finding.file, finding.line) for finding in broken.findings())
    assert found == Counter(_key(finding) for finding in expected)


def _key(finding: Mapping[str, str | int]) -> tuple[str, str, str, int]:
    """Return the compared fields of an expected finding."""
    return str(finding["rule"]), str(finding["severity"]), str(finding.get("file", "")), int(finding.get("line", 0))


def test_broken_bundles_contain_only_changed_files() -> None:
    for broken in BUNDLES:
        same = [path for path, raw in broken.own.items() if BASE.get(path) == raw]
        assert not same, f"{broken}: {same}"


def test_every_validator_has_a_broken_bundle() -> None:
    known = rules()
    covered = {known[broken.expected["findings"][0]["rule"]].validator for broken in BUNDLES}
    # across and crd-upgrade check several bundles, operator other directories; external runs programs
    assert {rule.validator for rule in known.values()} - covered == {"across", "crd-upgrade", "external", "operator"}
