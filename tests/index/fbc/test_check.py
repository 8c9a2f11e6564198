"""The rules of catalogs: each catalog in fixtures/catalogs/broken says in comments what is to be found in it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import channel_heads, check_graph
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import CatalogFinding, Subject
from opmkit.index.fbc.load import LoadResult, load_directory, load_files, read_blobs
from opmkit.index.fbc.model import Catalog
from tests.kit.randomcatalogs import break_catalog, sound_catalog, write_catalog

if TYPE_CHECKING:
    from opmkit.bundle.finding import Severity

CATALOGS = Path(__file__).parents[3] / "fixtures" / "catalogs"
BROKEN = sorted((CATALOGS / "broken").iterdir())


def load(path: Path) -> LoadResult:
    return load_files([("catalog.yaml", path.read_bytes())])


def told(severity: Severity, fault: CatalogFinding) -> str:
    about = f"{fault.subject}: " if str(fault.subject) else ""
    return f"# {severity} {fault.location.line}: {about}{fault.message}"


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_all_that_is_wrong_is_found_at_its_place(path: Path) -> None:
    verdict = validate(load(path), Compat.NEWEST)
    expected = [line for line in path.read_text().splitlines() if line.startswith(("# error", "# warning"))]
    assert [told(*finding) for finding in verdict.findings] == expected
    assert expected
    assert verdict.passed is not any(line.startswith("# error") for line in expected)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_every_finding_has_a_place_and_a_remedy(path: Path) -> None:
    for _, fault in validate(load(path), Compat.NEWEST).findings:
        assert fault.location.file == "catalog.yaml", fault
        assert fault.advice, fault


def test_a_sound_catalog_has_nothing_to_be_found() -> None:
    verdict = validate(load_directory(CATALOGS / "sound"), Compat.NEWEST)
    assert verdict.findings == []
    assert verdict.report() == {"passed": True, "findings": []}


def test_a_valid_catalog_by_name() -> None:
    packages = Catalog.from_blobs(read_blobs(CATALOGS / "sound")).packages
    assert list(packages) == ["demo", "extra"]
    demo = packages["demo"]
    assert (demo.default_channel, list(demo.channels), len(demo.bundles)) == ("stable", ["alpha", "stable"], 3)
    assert demo.channels["alpha"].heads == ("demo.v1.1.0",)
    assert demo.channels["alpha"].entries["demo.v1.1.0"].skips == ("demo.v1.0.1",)


def test_an_invalid_catalog_is_refused_with_all_that_is_wrong() -> None:
    blobs = load(CATALOGS / "broken" / "bundle-version.yaml").blobs
    with pytest.raises(InvalidCatalog) as failure:
        Catalog.from_blobs(blobs)
    assert failure.value.message.count("is not a semantic version") == 3


def test_faults_of_several_packages_are_told_package_by_package() -> None:
    blobs = Blobs((PackageBlob("b"), PackageBlob("a")))
    assert [fault.subject for fault in check_blobs(blobs)] == [Subject("a")] * 2 + [Subject("b")] * 2


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
    blobs = load(CATALOGS / "broken" / f"{name}.yaml").blobs
    assert len(check_blobs(blobs)) == newest
    assert len(check_blobs(blobs, Compat.OPM_1_26)) == oldest


def entries(text: str) -> list[EntryBlob]:
    """Entries as ``v2<v1-v0``: v2 replaces v1 and skips v0."""
    found = []
    for word in text.split():
        name, *skips = word.split("-")
        name, _, replaces = name.partition("<")
        found.append(EntryBlob(name, replaces, tuple(skips)))
    return found


@pytest.mark.parametrize("text", ["", "v1", "v1 v2<v1", "v2<v1", "v1 v2 v3<v2 v4<v3-v1", "v1<v2 v2<v1 v3<v2-v1-v2"])
def test_graphs_that_keep_the_rules(text: str) -> None:
    assert check_graph(entries(text)) is None


@pytest.mark.parametrize(
    ("text", "problem", "explained", "advice"),
    [
        ("v1 v2", "multiple channel heads found in graph: v1, v2", "nothing in the channel", "skips: [v1]"),
        ("v9 v10", "multiple channel heads found in graph: v10, v9", "nothing in the channel", "if it is v10"),
        ("v1<v2 v2<v1", "no channel head found in graph", "v1 replaces v2, v2 replaces v1", "v1 replaces v2"),
        ("v1-v1", "no channel head found in graph", "v1 skips v1", "v1 skips v1"),
        (
            "v1<v2 v2<v1 v3<v2",
            "detected cycle in replaces chain of upgrade graph: v2 -> v1 -> v2",
            "from the head v3",
            "v1 replaces v2",
        ),
        (
            "v1 v2<v1 v3<v0-v2",
            "channel contains one or more stranded bundles: v1",
            "the head: v3 -> v0",
            "skips: [v1]",
        ),
        (
            "v1 v2<v1 v3<v2 v4<v3-v2",
            "channel contains one or more stranded bundles: v1",
            "v4 -> v3, which ends there, for v2 is skipped",
            "skips: [v1]",
        ),
    ],
)
def test_graphs_that_break_a_rule_are_explained(text: str, problem: str, explained: str, advice: str) -> None:
    fault = check_graph(entries(text))
    assert fault is not None
    assert fault.problem == problem
    assert explained in fault.explanation
    assert advice in fault.advice


def test_long_graphs_are_told_whole_but_explained_in_short() -> None:
    chain = " ".join(f"v{number}<v{number - 1}" for number in range(2, 199))
    fault = check_graph(entries(f"v0 skipped<v0 {chain} v199<v198-skipped"))
    assert fault is not None
    assert fault.problem.endswith(": v0")
    assert fault.explanation.endswith("v199 -> v198 -> v197 -> v196 -> v195 -> v194 -> ... -> v1")


def test_heads_of_many_entries() -> None:
    assert channel_heads(entries("v3<v2 v2<v1 v1 w1-w0")) == ("v3", "w1")


def test_values_of_a_property_are_read_as_json_that_was_written_again() -> None:
    def faults(priority: float) -> int:
        value = BlobProperty("olm.channel", {"channelName": "alpha", "priority": priority})
        stated = BlobProperty("olm.package", {"packageName": "demo", "version": "1.0.0"})
        blobs = Blobs(bundles=(BundleBlob("demo.v1.0.0", "demo", "r/demo", (stated, value)),))
        return sum("priority" in fault.message for fault in check_blobs(blobs))

    assert [faults(1), faults(1.0), faults(1.5)] == [0, 0, 1]


@pytest.mark.parametrize("seed", range(100))
def test_made_up_catalogs_are_sound_until_something_breaks_them(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    catalog = sound_catalog(dice)
    write_catalog(dice, catalog, tmp_path / "sound")
    assert validate(load_directory(tmp_path / "sound"), Compat.NEWEST).errors == ()
    what = break_catalog(dice, catalog)
    write_catalog(dice, catalog, tmp_path / "broken")
    verdict = validate(load_directory(tmp_path / "broken"), Compat.NEWEST)
    assert all(fault.advice and fault.location.file for _, fault in verdict.findings), (what, verdict)
