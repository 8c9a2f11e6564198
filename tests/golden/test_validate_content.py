"""Findings of ``load``, ``sdk-content`` and ``opm-content`` compared with those of the Go validators on the corpora."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.object_metadata import crd_group
from tests.kit.shared import needs_shared
from tests.kit.validation import RECORDS, count_findings, deviations, recorded_bundles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.validation import RecordedBundle

pytestmark = needs_shared

# The values of these are messages of Go's decoders.
_NO_SUBJECT = {"CSV-EXAMPLES-JSON", "CSV-EXAMPLES-DECODE", "OPM-CSV", "OPM-CSV-CRDS"}


def bundles_of(compat: Compat, *corpora: str) -> list[RecordedBundle]:
    """Return the bundles that have a directory."""
    return [bundle for bundle in recorded_bundles(compat, *corpora) if bundle.layout in ("bundle", "manifests")]


def subject_of(finding: Mapping[str, str]) -> str:
    """Return the subject of a recorded finding: its value, unless that is a dump of a Go value."""
    rule, value = finding["rule"], finding.get("value", "")
    if rule == "BUNDLE-OWNED-CRD-MISSING":  # {GROUP KIND NAME VERSION}
        _, kind, name, version = value.strip("{}").split(" ")
        return f"{crd_group(name) or name}/{version}, Kind={kind}"
    if rule in _NO_SUBJECT:
        return ""
    return finding.get("field", "") if value[:1] in ("", "<", "[") or rule == "CSV-REQUIRED-FIELD" else value


def expected(bundle: RecordedBundle, validator: str) -> Counter[tuple[str, str, str]]:
    """Count the recorded findings; a crash means that the ClusterServiceVersion is missing."""
    return Counter(
        ("LOAD-NO-CSV", "error", "")
        if finding["rule"] == "CRASH"
        else (finding["rule"], finding["level"], subject_of(finding))
        for finding in bundle.findings
        if finding["validator"] == validator
    )


@pytest.mark.parametrize("compat", RECORDS)
@pytest.mark.parametrize("validator", ["load", "sdk-content"])
def test_findings_in_bundles_equal_the_recorded_ones(validator: str, compat: Compat) -> None:
    bundles = bundles_of(compat)
    assert sum(bundle.expected(validator).total() for bundle in bundles) > 25
    assert deviations(bundles, validator) == {}


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_packages_equal_the_recorded_ones(compat: Compat) -> None:
    """The bundles of a package are loaded like one directory, except that a package without a bundle is valid."""
    packages = [bundle for bundle in recorded_bundles(compat, "invalid-api") if bundle.layout == "package"]
    assert sum(bundle.expected("load-package").total() for bundle in packages) >= 4
    for package in packages:
        counts = count_findings(package.view(), "load")
        del counts["LOAD-NO-BUNDLE", "error", ""]
        assert counts == package.expected("load-package"), package.path


@pytest.mark.parametrize("compat", RECORDS)
def test_optional_findings_equal_the_recorded_ones(compat: Compat) -> None:
    """The Go validator crashes on an empty list of icons, which opmkit reports."""
    crashes = {"syn-hub-icon-empty-list": {("HUB-ICON-COUNT", "error", ""): 1}}
    bundles = bundles_of(compat)
    assert sum(bundle.expected("opm-content-optional").total() for bundle in bundles) > 150
    assert deviations(bundles, "opm-content-optional") == crashes


@pytest.mark.parametrize(
    ("compat", "corpora"), [(Compat.OPM_1_26, ("bundles", "invalid-api")), (Compat.NEWEST, ("invalid-api",))]
)
def test_opm_content_findings_equal_the_recorded_ones(compat: Compat, corpora: tuple[str, ...]) -> None:
    """The newest release has no records for the corpus ``bundles``."""
    counted = 0
    for bundle in bundles_of(compat, *corpora):
        wanted = expected(bundle, "opm-content")
        assert count_findings(bundle.view(), "opm-content") == wanted, bundle.path
        counted += wanted.total()
    assert counted > 150
