"""Reports that people and services read: repeated findings once, and URIs that are valid."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tests.kit.bundles import bundle_image, push_image
from tests.kit.opm import FIXTURES
from tests.kit.uris import is_uri_reference

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry


def test_reports_on_many_tags(newcomer: InstalledOpm, registry: Registry, tmp_path: Path) -> None:
    repository = f"{registry.host}/reports/lagoon"
    for patch in range(12):
        push_image(f"{repository}:0.1.{patch}", bundle_image("lagoon", f"0.1.{patch}", tmp_path))
    report = newcomer.attempt("bundle", "validate", "--use-http", repository).stdout.splitlines()
    (finding,) = [number for number, line in enumerate(report) if "warning MINKUBE-MISSING: " in line]
    listed = report[finding:]
    assert "  in 12 bundles:" in listed[:4]
    assert f"    {repository}:0.1.0/manifests/csv.yaml" in "\n".join(listed)
    assert "    and 2 more" in listed
    assert report[-1].startswith("12 bundles, ")
    sarif = json.loads(newcomer.attempt("bundle", "validate", "--use-http", repository, "--output", "sarif").stdout)
    results = sarif["runs"][0]["results"]
    uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results}
    assert f"docker://{repository}:0.1.0/manifests/csv.yaml" in uris
    assert all(map(is_uri_reference, uris))


def test_reports_of_a_bundle_with_thousands_of_mistakes_are_bounded(newcomer: InstalledOpm) -> None:
    bundle = newcomer.directory / "bundle"
    shutil.copytree(FIXTURES / "lagoon-operator" / "0.1.0", bundle)
    csv = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    unknown = "".join(f"  unknown{number}: x\n" for number in range(5000))
    csv.write_text(csv.read_text().replace("\nspec:\n", f"\nspec:\n{unknown}", 1))
    report = newcomer.attempt("bundle", "validate", "./bundle", "--output", "json")
    (target,) = json.loads(report.stdout)["bundles"]
    messages = [finding["message"] for finding in target["findings"]]
    assert len(messages) < 1100
    assert "4000 more findings of this rule, which are not listed" in messages
