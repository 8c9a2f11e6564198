"""Validation in worker processes gives the same results as in this process, also if a worker fails."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Finding
from opmkit.bundle.validation import parallel_validator
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.parallel_validator import NamedBundle, ParallelValidator, ValidatorConfig
from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.run import ProfileValidator
from opmkit.bundle.validation.sources import BundleFiles
from tests.kit.broken import BASE
from tests.kit.demo import CSV

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.result import ValidationResult


@pytest.fixture(autouse=True)
def _start_processes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_validator, "MIN_BUNDLES", 0)


def bundle(number: int) -> NamedBundle:
    """Return a bundle that is valid except for its version."""
    raw = BASE[CSV].replace(b"\n  version: ", b"\n  version: %d-" % number)
    assert raw != BASE[CSV]
    directories = frozenset({"manifests", "metadata"})
    return NamedBundle(f"bundle {number}", BundleFiles({**BASE, CSV: raw}, directories))


def validate(config: ValidatorConfig, bundles: list[NamedBundle], processes: int) -> list[ValidationResult]:
    """Return the results, requested after a worker process has finished the last bundle."""
    with ParallelValidator(config, processes) as validator:
        pending = [validator.submit(bundle) for bundle in bundles]
        if processes:
            assert pending[-1].future.result(60) is not None
        return [validator.result(one) for one in pending]


def report_process(_view: BundleView) -> list[Finding]:
    """Return the id of the process. Worker processes import this function by its name."""
    return [Finding(str(os.getpid()), rule="DEMO", validator="demo")]


@pytest.mark.slow
def test_results_are_equal_in_all_processes() -> None:
    config = ValidatorConfig(ProfileValidator(profile_named("all")), Compat.OPMKIT, Options())
    bundles = [bundle(number) for number in range(20)]
    expected = validate(config, bundles, 0)
    assert validate(config, bundles, 2) == expected
    assert {finding.rule for result in expected for finding in result.findings} == {"LOAD-CSV-TYPE"}


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/echo", ""])
def test_without_a_usable_process_this_one_validates_all(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    results = validate(ValidatorConfig(report_process, Compat.OPMKIT, Options()), [bundle(1), bundle(2)], 1)
    assert {result.findings[0].message for result in results} == {str(os.getpid())}


def test_exceptions_are_raised_in_the_consumer() -> None:
    def fail(view: BundleView) -> list[Finding]:
        raise ZeroDivisionError(view.name)

    with ParallelValidator(ValidatorConfig(fail, Compat.OPMKIT, Options()), 0) as validator:
        pending = validator.submit(bundle(1))
        with pytest.raises(ZeroDivisionError, match="bundle 1"):
            validator.result(pending)


def test_few_bundles_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_validator, "MIN_BUNDLES", 2)
    monkeypatch.setattr(subprocess, "Popen", None)
    with ParallelValidator(ValidatorConfig(report_process, Compat.OPMKIT, Options()), 1) as validator:
        pending = [validator.submit(bundle(number)) for number in range(2)]
        results = [validator.result(one) for one in pending]
    assert [result.findings[0].message for result in results] == [str(os.getpid())] * 2


def test_rules_are_imported_ahead() -> None:
    program = """
import sys
from opmkit import ValidationOptions
from opmkit.bundle.validation.parallel_validator import ParallelValidator
config = ValidationOptions(profile="opm").plan().validator_config(None)
with ParallelValidator(config, 0) as validator:
    validator.prepare()
    validator.prepare()
print([f"opmkit.bundle.validation.rules.{name}" in sys.modules for name in ("csv", "format", "community")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[True, True, False]\n", "")
