"""``opm template onboard`` writes the templates and configurations of operator-pipelines' ``fbc-onboarding``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.packages import select_packages
from opmkit.index.templates.onboarding.derive import derive_template
from tests.kit.onboarding import CHECKOUT, REFERENCE, compare, summarize
from tests.kit.shared import SHARED, needs_shared

COUNT = int(os.environ.get("OPMKIT_ONBOARDED", "20"))
"""Number of operators of the checkout to onboard, 0 for all."""
EXPECTED = (
    "a semver template is smaller",
    "operator-pipelines adds documents of other packages",
    "operator-pipelines retains empty fields",
    "opmkit retains other keys of fbc",
    "not onboarded by opmkit: not published in any of the catalogs",
    "not onboarded by opmkit: the bundles belong to several packages",
    "not onboarded by opmkit: package ",
    "operator-pipelines writes an empty catalog_mapping",
)
"""Beginnings of the reasons for intended differences."""
PACKAGES = ("cert-utils-operator", "lbconfig-operator", "yaks")

TEMPLATE = """
import json, sys
from operatorcert.entrypoints import fbc_onboarding

package, catalog = json.load(sys.stdin)
print(json.dumps(fbc_onboarding.get_base_template_from_catalog(package, catalog)))
"""


@pytest.fixture(autouse=True)
def _reference() -> None:
    if not REFERENCE:
        pytest.skip("set OPMKIT_REFERENCE_OPERATOR_PIPELINES to a Python interpreter that can import operatorcert")


def their_template(package: str, catalog: list[dict[str, Any]]) -> Any:
    done = subprocess.run(
        [REFERENCE, "-c", TEMPLATE], input=json.dumps([package, catalog]), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def our_template(package: str, catalog: list[dict[str, Any]]) -> Any:
    blobs = parse_blobs("\n".join(map(json.dumps, catalog)).encode(), "catalog.json")
    return yaml.safe_load(derive_template(select_packages(blobs, [package])[package]).content)


SAMPLE: list[dict[str, Any]] = [
    {"schema": "olm.package", "name": "pkg1", "defaultChannel": "a"},
    {"schema": "olm.channel", "name": "a", "package": "pkg1", "entries": [{"name": "pkg1.v1"}]},
    {"schema": "olm.bundle", "name": "pkg1.v1", "package": "pkg1", "image": "img1"},
    {"schema": "olm.deprecations", "package": "pkg1", "entries": []},
    {"schema": "olm.package", "name": "pkg2", "defaultChannel": "pkg1"},
    {"schema": "olm.channel", "name": "b", "package": "pkg2", "entries": [{"name": "pkg2.v1"}]},
    {"schema": "olm.bundle", "name": "pkg2.v1", "package": "pkg2", "image": "img2"},
]
"""The packages of operator-pipelines' own test, with the fields that catalogs require."""


def test_template_of_its_own_test_data() -> None:
    theirs, ours = (template("pkg1", SAMPLE[:3] + SAMPLE[4:]) for template in (their_template, our_template))
    assert ours == theirs
    assert [entry["schema"] for entry in ours["entries"]] == ["olm.package", "olm.channel", "olm.bundle"]
    assert their_template("pkg3", SAMPLE) is None


def test_channel_of_another_package_that_is_named_like_the_package_is_not_included() -> None:
    foreign = {"schema": "olm.channel", "name": "pkg1", "package": "pkg2", "entries": [{"name": "pkg2.v1"}]}
    theirs, ours = (template("pkg1", [*SAMPLE, foreign]) for template in (their_template, our_template))
    assert foreign in theirs["entries"]
    assert foreign not in ours["entries"]


@needs_shared
def test_operators_of_the_corpus_get_the_same_files(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "operators").mkdir(parents=True)
    (checkout / "config.yaml").write_text("organization: community-operators\n")
    for package in PACKAGES:
        (checkout / "operators" / package).mkdir()
        (checkout / "operators" / package / "ci.yaml").write_text("---\nupdateGraph: replaces-mode\nreviewers: [me]\n")
        for bundle in sorted((SHARED / "corpus" / "bundles" / package).iterdir())[:5]:
            (checkout / "operators" / package / bundle.name).symlink_to(bundle)
    comparisons = compare(checkout, PACKAGES, tmp_path)
    assert [(each.name, each.ours.status, each.reasons) for each in comparisons] == [
        (package, "written", []) for package in PACKAGES
    ]
    assert all(each.equal == each.templates > 3 for each in comparisons)


def test_operators_of_a_repository_get_the_same_files_or_better_ones(tmp_path: Path) -> None:
    if not CHECKOUT:
        pytest.skip("set OPMKIT_OPERATOR_REPOSITORY to a checkout of community-operators-prod")
    operators = sorted(path.name for path in (Path(CHECKOUT) / "operators").iterdir() if path.is_dir())
    step = max(len(operators) // COUNT, 1) if COUNT else 1
    comparisons = compare(Path(CHECKOUT), operators[::step], tmp_path)
    print(*(f"{count:5} {text}" for count, text in summarize(comparisons)), sep="\n")
    unexpected = {
        each.name: [reason for reason in each.reasons if not reason.startswith(EXPECTED)] for each in comparisons
    }
    assert {name: reasons for name, reasons in unexpected.items() if reasons} == {}
