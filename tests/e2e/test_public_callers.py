"""Command lines of public Makefiles, services and tests have the results that they have with Go opm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.opm import Opm

BUNDLE = str(LAGOON / "0.1.0")


def test_unknown_optional_validators_are_ignored_with_a_warning(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "store:lagoon:1")
    for names, warning in {
        "bundle-objects": "",
        "operatorhub, bundle-objects": "",
        "bundle-object": "Warning: unknown optional validator 'bundle-object': ignored; operatorhub and bundle-objects",
    }.items():
        for command in (("alpha", "bundle", "validate"), ("bundle", "validate")):
            done = opm.attempt(*command, "--tag", "store:lagoon:1", "--optional-validators", names)
            assert done.returncode == 0, done.stderr
            assert [line for line in done.stderr.splitlines() if line.startswith("Warning")] == [
                line for line in done.stderr.splitlines() if warning and line.startswith(warning)
            ]
            assert ("Warning" in done.stderr) == bool(warning)
    assert opm.attempt("bundle", "validate", BUNDLE, "--optional-validators", "bundle-objects").returncode == 0


def test_an_optional_validator_that_runs_anyway_reports_each_finding_once(opm: Opm) -> None:
    plain = opm("bundle", "validate", BUNDLE)
    assert "GP-CHANNEL-NAME" in plain
    assert opm("bundle", "validate", BUNDLE, "--select-optional", "name=good-practices") == plain
