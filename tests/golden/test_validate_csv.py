"""What the references find in the ClusterServiceVersions of the corpora, and between them and the other manifests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.kit.shared import needs_shared
from tests.kit.validation import RECORDS, found, judged, view_of

if TYPE_CHECKING:
    from opmkit.bundle.validation.compat import Compat
    from tests.kit.validation import Judged

pytestmark = needs_shared

# The values of these are texts of Go's decoders.
_NO_SUBJECT = {"CSV-EXAMPLES-JSON", "CSV-EXAMPLES-DECODE"}


def expected(bundle: Judged, validator: str) -> Counter[tuple[str, str, str]]:
    """What a reference found; of a required field the subject is the field, for the value is its kind."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for (rule, level, subject), count in bundle.expected(validator, "field value").items():
        counted[rule, level, "" if rule in _NO_SUBJECT else subject] += count
    return counted


def loaded(bundle: Judged) -> bool:
    """Whether the reference could load it, for else it looks no further."""
    return not any(one["validator"] == "load" for one in bundle.findings)


@pytest.mark.parametrize("compat", RECORDS)
@pytest.mark.parametrize("validator", ["csv", "bundle"])
def test_findings_are_those_of_the_reference(validator: str, compat: Compat) -> None:
    layouts = {"bundle", "manifests"} | ({"file"} if validator == "csv" else set())  # a file alone is no bundle
    bundles = [bundle for bundle in judged(compat) if loaded(bundle) and bundle.layout in layouts]
    assert len(bundles) > 800
    for bundle in bundles:
        assert found(bundle.view(), validator) == expected(bundle, validator), bundle.path
    assert sum(expected(bundle, validator).total() for bundle in bundles) > 50


@pytest.mark.parametrize("compat", RECORDS)
def test_nothing_was_found_where_nothing_was_loaded(compat: Compat) -> None:
    for bundle in judged(compat):
        if not loaded(bundle):
            assert not expected(bundle, "csv") + expected(bundle, "bundle"), bundle.path


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_the_whole_bundle_are_those_of_the_reference(compat: Compat) -> None:
    """Given all of a bundle, the references know its package, which changes what they say of a release."""
    for bundle in judged(compat, "invalid-api"):
        if bundle.layout == "bundle" and loaded(bundle):
            mine = found(bundle.view(), "bundle")
            known = {one for one in mine if one[0] != "BUNDLE-RELEASE-NAME"}
            assert Counter({one: mine[one] for one in known}) == expected(bundle, "bundle@root"), bundle.path
            assert "BUNDLE-RELEASE-NAME" not in {one[0] for one in found(view_of(bundle.directory), "bundle")}


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_packages_are_those_of_the_reference(compat: Compat) -> None:
    """The references measure no bundle of a package, which they say of each; opmkit measures these too."""
    seen = 0
    for package in judged(compat, "invalid-api"):
        if package.layout == "package" and loaded(package):
            names = {one["validator"].partition(":")[2] for one in package.findings if ":" in one["validator"]}
            for version in filter(lambda path: path.is_dir(), package.directory.iterdir()):
                view = view_of(version, "manifests", compat)
                if view.csv and view.csv.object_name in names:
                    seen += 1
                    for validator in ("csv", "bundle"):
                        recorded = expected(package, f"{validator}:{view.csv.object_name}")
                        wanted = {one: 1 for one in recorded if one[0] != "BUNDLE-SIZE-UNKNOWN"}
                        assert found(view, validator) == wanted, (version, validator)
    assert seen == 4
