"""Validation of catalogs; comments in fixtures/catalogs/invalid list the expected findings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, PackageBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.check.rules import CATALOG_RULES
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import LoadResult, load_directory, load_files
from tests.kit.brokencatalogs import break_catalog
from tests.kit.randomcatalogs import random_catalog, write_catalog

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding

CATALOGS = Path(__file__).parents[4] / "fixtures" / "catalogs"
INVALID = sorted((CATALOGS / "invalid").iterdir())


def load(path: Path) -> LoadResult:
    return load_files([("catalog.yaml", path.read_bytes())])


def format_finding(finding: Finding) -> str:
    subject = f"{finding.subject}: " if finding.subject else ""
    return f"# {finding.severity} {finding.line}: {subject}{finding.message}"


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_findings_of_invalid_catalogs(path: Path) -> None:
    result = validate(load(path), CatalogCompat.NEWEST)
    expected = [line for line in path.read_text().splitlines() if line.startswith(("# error", "# warning"))]
    assert [format_finding(finding) for finding in result.findings] == expected
    assert expected
    assert result.passed is not any(line.startswith("# error") for line in expected)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_every_finding_has_a_file_and_a_hint(path: Path) -> None:
    for finding in validate(load(path), CatalogCompat.NEWEST).findings:
        assert finding.file == "catalog.yaml", finding
        assert finding.hint, finding
        assert CATALOG_RULES[finding.rule].severity is finding.severity


def test_valid_catalog_has_no_findings() -> None:
    result = validate(load_directory(CATALOGS / "valid"), CatalogCompat.NEWEST)
    assert result.findings == ()
    assert result.to_dict() == {"passed": True, "findings": [], "allowed": [], "notices": []}


def test_findings_are_grouped_by_package() -> None:
    blobs = Blobs((PackageBlob("b"), PackageBlob("a")))
    assert [finding.package for finding in check_blobs(blobs)] == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("name", "newest", "oldest"),
    [
        ("package-name", 1, 0),
        ("bundle-images", 4, 0),
        ("bundle-release", 3, 0),
        ("bundle-same-version", 1, 0),
        ("entry-skip-range", 1, 0),
        ("deprecations", 8, 0),
        ("stranded-below-skipped", 1, 0),
        ("cycle-of-skipped", 0, 1),
        ("bundle-version", 3, 3),
    ],
)
def test_older_releases_have_other_rules(name: str, newest: int, oldest: int) -> None:
    blobs = load(CATALOGS / "invalid" / f"{name}.yaml").blobs
    assert len(check_blobs(blobs)) == newest
    assert len(check_blobs(blobs, CatalogCompat.OPM_1_26)) == oldest


def test_integral_numbers_in_properties_are_integers() -> None:
    def count_findings(priority: float) -> int:
        channel = BlobProperty("olm.channel", {"channelName": "alpha", "priority": priority})
        package = BlobProperty("olm.package", {"packageName": "demo", "version": "1.0.0"})
        blobs = Blobs(bundles=(BundleBlob("demo.v1.0.0", "demo", "r/demo", (package, channel)),))
        return sum("priority" in finding.message for finding in check_blobs(blobs))

    assert [count_findings(1), count_findings(1.0), count_findings(1.5)] == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_catalogs_are_valid_until_they_are_broken(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    catalog = random_catalog(rng)
    write_catalog(rng, catalog, tmp_path / "valid")
    assert validate(load_directory(tmp_path / "valid"), CatalogCompat.NEWEST).errors == ()
    change = break_catalog(rng, catalog)
    write_catalog(rng, catalog, tmp_path / "broken")
    result = validate(load_directory(tmp_path / "broken"), CatalogCompat.NEWEST)
    assert all(finding.hint and finding.file for finding in result.findings), (change, result)
