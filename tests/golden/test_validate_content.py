"""Loading, kinds and metadata, and the manifests as opm looks at them, against what the references found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.gvk import crd_group
from tests.kit.shared import needs_shared
from tests.kit.validation import RECORDS, deviations, found, judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.validation import Judged

pytestmark = needs_shared

# The values of these are texts of Go's decoders.
_NO_SUBJECT = {"CSV-EXAMPLES-JSON", "CSV-EXAMPLES-DECODE", "OPM-CSV", "OPM-CSV-CRDS"}


def bundles_of(compat: Compat, *corpora: str) -> list[Judged]:
    """Those that the references loaded from a directory of their own."""
    return [one for one in judged(compat, *corpora) if one.layout in ("bundle", "manifests")]


def subject_of(finding: Mapping[str, str]) -> str:
    """The subject of a recorded finding: its value, unless that shows a value of the Go program."""
    rule, value = finding["rule"], finding.get("value", "")
    if rule == "BUNDLE-OWNED-CRD-MISSING":  # {GROUP KIND NAME VERSION}
        _, kind, name, version = value.strip("{}").split(" ")
        return f"{crd_group(name) or name}/{version}, Kind={kind}"
    if rule in _NO_SUBJECT:
        return ""
    return finding.get("field", "") if value[:1] in ("", "<", "[") or rule == "CSV-REQUIRED-FIELD" else value


def expected(bundle: Judged, validator: str) -> Counter[tuple[str, str, str]]:
    """What a reference found; where it broke down, there is no ClusterServiceVersion."""
    return Counter(
        ("LOAD-NO-CSV", "error", "") if one["rule"] == "CRASH" else (one["rule"], one["level"], subject_of(one))
        for one in bundle.findings
        if one["validator"] == validator
    )


@pytest.mark.parametrize("compat", RECORDS)
@pytest.mark.parametrize("validator", ["load", "sdk-content"])
def test_bundles_are_loaded_as_recorded(validator: str, compat: Compat) -> None:
    bundles = bundles_of(compat)
    assert sum(one.expected(validator).total() for one in bundles) > 25
    assert deviations(bundles, validator) == {}


@pytest.mark.parametrize("compat", RECORDS)
def test_packages_are_loaded_as_recorded(compat: Compat) -> None:
    """All bundles of a package are loaded as one directory is, but none at all is no fault of a package."""
    packages = [one for one in judged(compat, "invalid-api") if one.layout == "package"]
    assert sum(one.expected("load-package").total() for one in packages) >= 4
    for package in packages:
        told = found(package.view(), "load")
        del told["LOAD-NO-BUNDLE", "error", ""]
        assert told == package.expected("load-package"), package.path


@pytest.mark.parametrize("compat", RECORDS)
def test_the_optional_validator_of_opm_judges_as_recorded(compat: Compat) -> None:
    """It looks at the ClusterServiceVersion alone, and breaks down on an empty list of icons."""
    breaks = {"syn-hub-icon-empty-list": {("HUB-ICON-COUNT", "error", ""): 1}}
    bundles = bundles_of(compat)
    assert sum(one.expected("opm-content-optional").total() for one in bundles) > 150
    assert deviations(bundles, "opm-content-optional") == breaks


@pytest.mark.parametrize(
    ("compat", "corpora"), [(Compat.OPM_1_26, ("bundles", "invalid-api")), (Compat.NEWEST, ("invalid-api",))]
)
def test_manifests_are_judged_as_opm_judges_them(compat: Compat, corpora: tuple[str, ...]) -> None:
    """The newer reference was not asked about the bundles of the catalogs."""
    counted = 0
    for bundle in bundles_of(compat, *corpora):
        wanted = expected(bundle, "opm-content")
        assert found(bundle.view(), "opm-content") == wanted, bundle.path
        counted += wanted.total()
    assert counted > 150
