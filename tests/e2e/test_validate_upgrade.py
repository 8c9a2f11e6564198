"""``opm bundle validate --from``: changes of CRDs since the bundle that is replaced."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES, LAGOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

BASE = FIXTURES / "broken-bundles" / "base"
CRD = "manifests/demos.demo.example.com.crd.yaml"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle whose field has another type than in `BASE`."""
    directory = tmp_path / "new"
    shutil.copytree(BASE, directory)
    path = directory / CRD
    path.write_text(path.read_text().replace("size: {type: integer}", "size: {type: string}"))
    return directory


def test_unsafe_changes_are_reported_with_their_lines(opm: Opm, bundle: Path) -> None:
    done = opm.attempt("bundle", "validate", str(bundle), "--from", str(BASE))
    assert done.returncode == 1
    line = (bundle / CRD).read_text().splitlines().index("              size: {type: string}") + 1
    message = 'v1: ^.spec.size: type changes from "integer" to "string"'
    assert f"{line}:15 error CRD-UPGRADE-PROPERTY: {message}\n" in done.stdout
    assert f"{line}:15 warning CRD-UPGRADE-EXISTING-OBJECTS: {message}: existing objects may violate" in done.stdout


def test_results_depend_on_the_replaced_bundle_and_on_olm(opm: Opm, bundle: Path) -> None:
    opm.env["OPM_STORE"] = str(bundle.parent / "store")
    assert "no findings" in opm("bundle", "validate", str(bundle))
    assert "1 bundle, 0 errors, 1 warning" in opm("bundle", "validate", str(bundle), "--from", str(BASE), "--olm", "v0")
    report = opm.attempt("bundle", "validate", str(bundle), "--from", str(BASE), "--olm", "v1", "--output", "json")
    (finding,) = json.loads(report.stdout)["bundles"][0]["findings"]
    assert (finding["rule"], finding["severity"]) == ("CRD-UPGRADE-PROPERTY", "error")
    assert finding["subject"] == "demos.demo.example.com"
    assert "no findings" in opm("bundle", "validate", str(bundle), "--from", str(bundle))


def test_the_replaced_bundle_can_be_an_image(opm: Opm) -> None:
    opm.env["OPM_STORE"] = str(opm.directory / "store")
    opm.build_bundle("0.1.0", "quay.io/me/lagoon:0.1.0")
    manifests = opm.directory / "new" / "manifests"
    shutil.copytree(LAGOON / "0.1.0" / "manifests", manifests)
    (definition,) = manifests.glob("*crd*")
    definition.write_text(definition.read_text().replace("scope: Namespaced", "scope: Cluster"))
    done = opm.attempt("bundle", "validate", str(manifests), "--from", "quay.io/me/lagoon:0.1.0")
    assert done.returncode == 1
    assert "CRD-UPGRADE-SCOPE" in done.stdout


def test_findings_can_be_ignored(opm: Opm, bundle: Path) -> None:
    flags = ("--from", str(BASE), "--ignore", "CRD-UPGRADE-PROPERTY")
    assert "0 errors, 1 warning" in opm("bundle", "validate", str(bundle), *flags)


def test_invalid_flags_are_refused(opm: Opm, bundle: Path) -> None:
    done = opm.attempt("bundle", "validate", str(bundle), "--from", str(BASE), "--olm", "v2")
    assert done.returncode == 1
    assert "unknown value 'v2' of --olm: one of v0, v1, both" in done.stderr
    done = opm.attempt("bundle", "validate", str(bundle), "--from", "example.com/lagoon")
    assert done.returncode == 1
    assert "example.com/lagoon: not one bundle" in done.stderr
    several = bundle.parent / "lagoon"
    shutil.copytree(bundle, several / "0.1.0")
    shutil.copytree(bundle, several / "0.2.0")
    assert opm.attempt("bundle", "validate", str(bundle), "--from", str(several)).returncode == 1


def test_rules_are_explained(opm: Opm) -> None:
    text = opm("bundle", "rules", "CRD-UPGRADE-STORED-VERSION")
    assert "OLM v0 and v1 refuse to drop a version in status.storedVersions" in text
    assert "Bad:" in text
    assert "Good:" in text
