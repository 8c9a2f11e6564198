"""What the references find in the CustomResourceDefinitions of the corpora."""

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


def expected(bundle: Judged, validator: str) -> Counter[tuple[str, str, str]]:
    """What a reference found; the subject is the value where it is a string, and the field where it is a Go struct."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for one in bundle.findings:
        if one["validator"] == validator:
            value = one.get("value", "")
            counted[one["rule"], one["level"], one["field"] if value[:1] in ("", "<", "[") else value] += 1
    return counted


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_are_those_of_the_reference(compat: Compat) -> None:
    counted = 0
    for bundle in judged(compat):
        if not any(one["validator"] == "load" for one in bundle.findings) and bundle.layout != "package":
            wanted = expected(bundle, "crd")
            assert found(bundle.view(), "crd") == wanted, bundle.path
            counted += wanted.total()
    assert counted > 300


@pytest.mark.parametrize("compat", RECORDS)
def test_findings_in_packages_are_those_of_the_reference(compat: Compat) -> None:
    counted = 0
    for package in judged(compat, "invalid-api"):
        names = {one["validator"].partition(":")[2] for one in package.findings if one["validator"].startswith("crd:")}
        for version in package.directory.iterdir() if names else ():
            if version.is_dir():
                view = view_of(version, "manifests", compat)
                name = view.csv.object_name if view.csv else ""
                wanted = expected(package, f"crd:{name}")
                assert set(found(view, "crd")) == set(wanted), version
                counted += wanted.total()
    assert counted == 12


def test_the_schemas_that_are_refused() -> None:
    """No others, for the validation of the API server itself (v1.26) refuses these and no others of the corpora."""
    refused = {
        bundle.path
        for bundle in judged(list(RECORDS)[-1])
        if any(
            rule.startswith("CRD-STRUCTURAL") for rule, _, _ in found(view_of(bundle.directory, bundle.layout), "crd")
        )
    }
    assert refused == {"reg-valid-bundle", "reg-manifests-invalid-annotation-name", "syn-crd-schema-not-structural"}
