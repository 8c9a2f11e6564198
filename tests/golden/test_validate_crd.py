"""Findings of the validator ``crd`` compared with those of the Go validators on the corpora."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.kit.shared import needs_shared
from tests.kit.validation import RECORDS, count_findings, recorded_bundles, view_of_directory

if TYPE_CHECKING:
    from opmkit.bundle.validation.compat import Compat
    from tests.kit.validation import RecordedBundle

pytestmark = needs_shared


def expected(bundle: RecordedBundle, validator: str) -> Counter[tuple[str, str, str]]:
    """Count the recorded findings; the subject is the value if it is a string, or the field if it is a Go struct."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for finding in bundle.findings:
        if finding["validator"] == validator:
            value = finding.get("value", "")
            counted[finding["rule"], finding["level"], finding["field"] if value[:1] in ("", "<", "[") else value] += 1
    return counted


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_equal_the_recorded_ones(compat: Compat) -> None:
    counted = 0
    for bundle in recorded_bundles(compat):
        if not any(finding["validator"] == "load" for finding in bundle.findings) and bundle.layout != "package":
            wanted = expected(bundle, "crd")
            assert count_findings(bundle.view(), "crd") == wanted, bundle.path
            counted += wanted.total()
    assert counted > 300


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_packages_equal_the_recorded_ones(compat: Compat) -> None:
    counted = 0
    for package in recorded_bundles(compat, "invalid-api"):
        names = {
            finding["validator"].partition(":")[2]
            for finding in package.findings
            if finding["validator"].startswith("crd:")
        }
        for version in package.directory.iterdir() if names else ():
            if version.is_dir():
                view = view_of_directory(version, "manifests", compat)
                name = view.csv.object_name if view.csv else ""
                wanted = expected(package, f"crd:{name}")
                assert set(count_findings(view, "crd")) == set(wanted), version
                counted += wanted.total()
    assert counted == 12


def test_invalid_schemas_are_those_that_an_api_server_rejects() -> None:
    """The API server's own validation (v1.26) rejects exactly these schemas of the corpora."""
    rejected = {
        bundle.path
        for bundle in recorded_bundles(list(RECORDS)[-1])
        if any(
            rule.startswith("CRD-STRUCTURAL")
            for rule, _, _ in count_findings(view_of_directory(bundle.directory, bundle.layout), "crd")
        )
    }
    assert rejected == {"reg-valid-bundle", "reg-manifests-invalid-annotation-name", "syn-crd-schema-not-structural"}
