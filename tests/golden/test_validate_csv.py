"""Findings of the validators ``csv`` and ``bundle`` compared with those of the Go validators on the corpora."""

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

# The values of these are messages of Go's decoders.
_NO_SUBJECT = {"CSV-EXAMPLES-JSON", "CSV-EXAMPLES-DECODE"}


def expected(bundle: RecordedBundle, validator: str) -> Counter[tuple[str, str, str]]:
    """Count the recorded findings; the subject of a required field is the field, as the value is its kind."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for (rule, level, subject), count in bundle.expected(validator, "field value").items():
        counted[rule, level, "" if rule in _NO_SUBJECT else subject] += count
    return counted


def loaded(bundle: RecordedBundle) -> bool:
    """Return True if the Go validators could load the bundle; they do not check others."""
    return not any(finding["validator"] == "load" for finding in bundle.findings)


@pytest.mark.parametrize("compat", RECORDS)
@pytest.mark.parametrize("validator", ["csv", "bundle"])
def test_findings_equal_the_recorded_ones(validator: str, compat: Compat) -> None:
    layouts = {"bundle", "manifests"} | ({"file"} if validator == "csv" else set())  # a single file is not a bundle
    bundles = [bundle for bundle in recorded_bundles(compat) if loaded(bundle) and bundle.layout in layouts]
    assert len(bundles) > 800
    for bundle in bundles:
        assert count_findings(bundle.view(), validator) == expected(bundle, validator), bundle.path
    assert sum(expected(bundle, validator).total() for bundle in bundles) > 50


@pytest.mark.parametrize("compat", RECORDS)
def test_bundles_that_were_not_loaded_have_no_findings(compat: Compat) -> None:
    for bundle in recorded_bundles(compat):
        if not loaded(bundle):
            assert not expected(bundle, "csv") + expected(bundle, "bundle"), bundle.path


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_whole_bundles_equal_the_recorded_ones(compat: Compat) -> None:
    """Given the whole bundle, the Go validators know the package, which matters for BUNDLE-RELEASE-NAME."""
    for bundle in recorded_bundles(compat, "invalid-api"):
        if bundle.layout == "bundle" and loaded(bundle):
            mine = count_findings(bundle.view(), "bundle")
            known = {finding for finding in mine if finding[0] != "BUNDLE-RELEASE-NAME"}
            assert Counter({finding: mine[finding] for finding in known}) == expected(bundle, "bundle@root"), (
                bundle.path
            )
            assert "BUNDLE-RELEASE-NAME" not in {
                finding[0] for finding in count_findings(view_of_directory(bundle.directory), "bundle")
            }


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_packages_equal_the_recorded_ones(compat: Compat) -> None:
    """The Go validators report BUNDLE-SIZE-UNKNOWN for each bundle of a package; opmkit measures them."""
    seen = 0
    for package in recorded_bundles(compat, "invalid-api"):
        if package.layout == "package" and loaded(package):
            names = {
                finding["validator"].partition(":")[2] for finding in package.findings if ":" in finding["validator"]
            }
            for version in filter(lambda path: path.is_dir(), package.directory.iterdir()):
                view = view_of_directory(version, "manifests", compat)
                if view.csv and view.csv.object_name in names:
                    seen += 1
                    for validator in ("csv", "bundle"):
                        recorded = expected(package, f"{validator}:{view.csv.object_name}")
                        wanted = {bundle: 1 for bundle in recorded if bundle[0] != "BUNDLE-SIZE-UNKNOWN"}
                        assert count_findings(view, validator) == wanted, (version, validator)
    assert seen == 4
