"""The broken bundles in fixtures/: in each, just what is expected is found, and where."""

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
def test_the_sound_bundle_passes(profile: str, compat: Compat) -> None:
    optional = [name for name in PROFILES[profile].optional if name not in ("multiarch", "operatorhub")]
    chosen = [name for name in optional if compat in PROFILES[profile].optional[name].compat]
    assert run_profile(view(BASE, compat), profile_named(profile), chosen) == []


@pytest.mark.parametrize("broken", BUNDLES, ids=str)
def test_just_the_fault_is_found(broken: Broken) -> None:
    expected = broken.expected["findings"]
    assert expected[0]["rule"].lower() == broken.name
    found = Counter((one.rule, one.severity.value, one.file, one.line) for one in broken.findings())
    assert found == Counter(_known(one) for one in expected)


def _known(finding: Mapping[str, str | int]) -> tuple[str, str, str, int]:
    """What an expected finding is known by."""
    return str(finding["rule"]), str(finding["severity"]), str(finding.get("file", "")), int(finding.get("line", 0))


def test_what_a_broken_bundle_repeats_of_the_sound_one_is_left_out() -> None:
    for broken in BUNDLES:
        same = [path for path, raw in broken.own.items() if BASE.get(path) == raw]
        assert not same, f"{broken}: {same}"


def test_every_validator_is_among_them() -> None:
    known = rules()
    judged = {known[broken.expected["findings"][0]["rule"]].validator for broken in BUNDLES}
    assert {one.validator for one in known.values()} - judged == {"across"}  # it is over several bundles
