"""Findings of the profile ``operator-sdk`` compared with recorded results of operator-sdk v1.42.3."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.optional_validators import select_validators
from opmkit.bundle.validation.profiles import DEFAULT, profile_named
from opmkit.bundle.validation.run import run_profile
from tests.kit.broken import Broken, broken_bundles
from tests.kit.operator_sdk import DIFFERENCES, outcome_of, recorded
from tests.kit.validation import view

RECORDED = recorded()


@pytest.mark.parametrize("selection", ["default", "suite"])
def test_findings_equal_those_of_operator_sdk(selection: str) -> None:
    selector = "suite=operatorframework" if selection == "suite" else ""
    optional = [one.name for one in select_validators(selector, Compat.NEWEST)] if selector else []
    options = Options(k8s_version="1.25" if selector else "")
    different = set()
    for name, outcomes in RECORDED.items():
        bundle = view(Broken(name).files, Compat.NEWEST, options=options)
        findings = run_profile(bundle, profile_named("operator-sdk"), optional)
        if outcome_of(asdict(finding) for finding in findings) != outcomes[selection]:
            different.add(name)
    assert different == DIFFERENCES.keys() - ({"hub-icon-count"} if not selector else set())


def test_bundles_that_operator_sdk_rejects_are_rejected_by_default() -> None:
    accepted = set()
    for name, outcomes in RECORDED.items():
        findings = run_profile(view(Broken(name).files), profile_named(DEFAULT))
        if outcomes["default"].exit and not any(finding.severity is Severity.ERROR for finding in findings):
            accepted.add(name)
    assert accepted == {"csv-owned-duplicate", "file-encoding"}


def test_every_broken_bundle_is_recorded() -> None:
    assert RECORDED.keys() == {broken.name for broken in broken_bundles()}
