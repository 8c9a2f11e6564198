"""Validation and all report formats work for mutated bundles.

``OPMKIT_MUTANTS`` is the number of mutated bundles.
"""

from __future__ import annotations

import os
import re
import resource
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.labels import CHANNELS, PACKAGE
from opmkit.bundle.reports import github, junit, sarif, text
from opmkit.bundle.reports import json as json_report
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.cross_bundle import ComparedBundle, run_cross_bundle_rules
from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.result import ValidationResult
from opmkit.bundle.validation.rule_registry import rules, validators
from opmkit.bundle.validation.run import run_profile, run_rules
from opmkit.documents.content import ContentCache
from tests.kit.mutants import VALUES, mutants
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.validation.bundle_view import BundleView

MUTANTS = int(os.environ.get("OPMKIT_MUTANTS") or 300)
MEMORY_KIB = 512 * 1024
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
LABELS = st.none() | st.dictionaries(
    st.sampled_from([PACKAGE, CHANNELS, "x"]),
    st.sampled_from([value for value in VALUES if isinstance(value, str) and value != "\ud800"]),
)
RUNS = [
    (Compat.OPMKIT, "all", ("multiarch", "operatorhub", "pipeline", "community-pipeline")),
    *((compat, name, ()) for compat in (Compat.OPM_1_26, Compat.NEWEST) for name in ("opm", "operator-sdk")),
]


@settings(
    max_examples=MUTANTS,
    derandomize="OPMKIT_MUTANTS" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(mutants(), LABELS, st.booleans())
def validate_mutants(files: Mapping[str, bytes], labels: Mapping[str, str] | None, bare: bool) -> None:
    more = {"image_labels": labels, "bare": bare, "options": Options(k8s_version="1.25"), "contents": ContentCache()}
    for compat, profile, optional in RUNS:
        bundle = view(files, compat, **more)
        findings = run_profile(bundle, profile_named(profile), optional)
        findings += run_rules(bundle, validators()["packagemanifest"])
        write_reports([to_result(bundle, findings)])
    versions = {f"{number}/{path}": raw for number in ("1.2.3", "1.2.4") for path, raw in files.items()}
    config = next(iter(files.values()), b"")
    operator = view({**versions, "ci.yaml": config, "1.2.3/release-config.yaml": config}, operator="demo")
    write_reports([to_result(operator, list(run_rules(operator, validators()["operator"])))])


def to_result(bundle: BundleView, findings: list[Finding]) -> ValidationResult:
    name = bundle.csv.object_name if bundle.csv else ""
    summary = ComparedBundle.from_bundle(bundle)
    across = (
        [finding for _, finding in run_cross_bundle_rules([summary] * 2, validators()["across"])] if summary else []
    )
    return ValidationResult(
        "mutant", (*findings, *across), name, package=bundle.annotations.get(PACKAGE, ""), summary=summary
    )


def write_reports(results: list[ValidationResult]) -> None:
    known = rules()
    for finding in results[0].findings:
        assert finding.rule in known
        assert finding.message
        assert finding.hint
        assert finding.line >= 0
    for line, _ in text.lines(results):
        assert not CONTROL.search(line), line
        line.encode()
    for line in github.lines(results):
        assert not CONTROL.search(line), line
        line.encode()
    ET.fromstring(junit.report(results, Severity.WARNING))
    orjson.dumps(json_report.report(results, Severity.ERROR))
    orjson.dumps(json_report.json_alpha1(results[0]))
    orjson.dumps(sarif.report(results, known))


@pytest.mark.slow
def test_validation_and_reports_of_mutants() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    validate_mutants()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KIB
