"""The index commands on file-based catalogs, in images and directories."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.opm import Opm

if TYPE_CHECKING:
    from pathlib import Path

NAME = "lagoon-operator"
FIRST, SECOND, THIRD = (f"oci:images/lagoon:{version}=quay.io/me/lagoon:{version}" for version in "123")
V1, V2, V3 = (f"{NAME}.v0.{minor}.0" for minor in "123")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three bundles, and indexes of the first two: a catalog as an image and in a directory, and a database's image."""
    opm = Opm(tmp_path_factory.mktemp("made"))
    for minor in "123":
        opm.build_bundle(f"0.{minor}.0", f"oci:images/lagoon:{minor}")
    add = ("index", "add", "-b", f"{FIRST},{SECOND}")
    opm(*add, "-i", "scratch", "-t", "oci:images/catalog:1", "--to-fbc")
    opm(*add, "-i", "scratch", "-t", "oci:images/catalog:db")
    (opm.directory / "cat").mkdir()
    opm(*add, "-f", "cat")
    return opm.directory


@pytest.fixture
def site(made: Path, opm: Opm) -> Opm:
    """The command in a copy of it."""
    shutil.copytree(made, opm.directory, dirs_exist_ok=True)
    return opm


def changed(opm: Opm, *argv: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(opm(*argv, "--output", "json"))
    return result


def entries(opm: Opm, index: str) -> dict[str, dict[str, str]]:
    """What each entry of each channel replaces."""
    rows = json.loads(opm("alpha", "list", "bundles", index, "-o", "json"))
    channels: dict[str, dict[str, str]] = {}
    for row in rows:
        channels.setdefault(row["channel"], {})[row["bundle"]] = row["replaces"]
    return channels


CHANGES = [
    ("add", "-b", THIRD),
    ("add", "-b", THIRD, "--channel", "beta", "--skips", V1, "--replaces", ""),
    ("add", "-b", THIRD, "--mode", "semver", "--migrate-level", "all"),
    ("rm", "-o", NAME),
    ("prune", "-p", NAME),
    ("prune-stranded",),
    ("deprecatetruncate", "-b", "quay.io/me/lagoon:1"),
    ("deprecate", "--package", NAME, "--bundle", V1, "-m", "It is old."),
    ("update", "--add", THIRD, "--deprecate", "quay.io/me/lagoon:2"),
]


@pytest.mark.parametrize("argv", CHANGES, ids=" ".join)
def test_directories_and_images_are_changed_alike_and_a_dry_run_tells_how(site: Opm, argv: tuple[str, ...]) -> None:
    verb, *flags = argv
    before = site("render", "cat")
    dry = changed(site, "index", verb, *flags, "-f", "cat", "--dry-run")
    assert site("render", "cat") == before
    there = changed(site, "index", verb, *flags, "-f", "cat")
    image = changed(site, "index", verb, *flags, "-f", "oci:images/catalog:1", "-t", "oci:images/catalog:2")
    assert dry["packages"] == there["packages"] == image["packages"]
    assert bool(dry["packages"]) == (site("render", "cat") != before) == (verb not in ("prune", "prune-stranded"))
    assert site("index", "diff", "cat", "oci:images/catalog:2").strip() == "no difference"
    assert site("validate", "cat") == ""
    kept = site("image", "inspect", "oci:images/catalog:2")
    assert "serve /configs" in kept


def test_the_same_bundles_give_the_same_catalog_by_either_way(site: Opm) -> None:
    add = ("index", "add", "-b", THIRD, "-f")
    site(*add, "oci:images/catalog:db", "-t", "oci:images/catalog:converted", "--to-fbc")
    site(*add, "oci:images/catalog:1", "-t", "oci:images/catalog:added")
    assert entries(site, "oci:images/catalog:converted") == entries(site, "oci:images/catalog:added")
    assert entries(site, "oci:images/catalog:added")["alpha"] == {V1: "", V2: V1, V3: V2}


def test_a_bundle_that_gives_a_channel_two_heads_is_refused_with_the_graph_and_a_remedy(site: Opm) -> None:
    before = site("render", "cat")
    done = site.attempt("index", "add", "-b", THIRD, "-f", "cat", "--channel", "alpha", "--replaces", "")
    assert done.returncode == 1
    assert f"{V2}, {V3}" in done.stderr
    assert f"{V2} -> {V1}; {V3}" in done.stderr
    assert f"--replaces {V2}, or --skips {V1},{V2}" in done.stderr
    assert site("render", "cat") == before
    site("index", "add", "-b", THIRD, "-f", "cat", "--channel", "alpha", "--replaces", "", "--skips", f"{V1},{V2}")
    assert entries(site, "cat") == {"alpha": {V1: "", V2: V1, V3: ""}, "stable": {V1: "", V2: V1}}


@pytest.mark.parametrize(
    ("argv", "status", "told"),
    [
        (("add", "-b", SECOND, "-f", "cat"), 2, "quay.io/me/lagoon:2"),
        (("add", "-b", "oci:images/lagoon:2=quay.io/other:2", "-f", "cat"), 3, V2),
        (("add", "-b", f"{SECOND},{THIRD}", "-f", "cat", "--replaces", V1), 1, "require exactly one bundle"),
        (("add", "-b", THIRD, "-f", "cat", "--push"), 1, "name the new image with --tag"),
        (("add", "-b", "oci:images/lagoon:3", "-f", "cat"), 1, "SOURCE=IMAGE"),
        (("add", "-b", THIRD, "-f", "cat", "--migrate-level", "some"), 1, "--migrate-level"),
        (("rm", "-o", "unknown", "-f", "cat"), 1, "unknown"),
        (("deprecate", "--package", NAME, "-f", "cat"), 1, "--undo"),
        (("deprecate", "--package", NAME, "--channel", "alhpa", "-m", "x", "-f", "cat"), 1, "alpha"),
        (("filter", NAME), 1, "from-index"),
        (("filter", "lagoon-operater", "-f", "cat"), 1, NAME),
        (("filter", f"{NAME}:alpha", "-f", "cat"), 1, "--default-channel"),
        (("filter", f"{NAME}:alpha", "-f", "cat", "--default-channel", "alpha"), 1, "PACKAGE=CHANNEL"),
        (("filter", f"{NAME}@>", "-f", "cat"), 1, "invalid filter"),
        (("filter", NAME, "-f", "./none"), 1, "./none: no such file or directory"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else "",
)
def test_what_is_refused_changes_nothing(site: Opm, argv: tuple[str, ...], status: int, told: str) -> None:
    before = site("render", "cat")
    done = site.attempt("index", *argv)
    assert (done.returncode, site("render", "cat")) == (status, before)
    assert told in done.stderr


def test_a_filter_tells_what_it_keeps_and_why(site: Opm) -> None:
    site("index", "add", "-b", THIRD, "-f", "cat")
    argv = ("index", "filter", f"{NAME}:stable@0.1.0 || 0.3.0", "-f", "cat")
    told = site(*argv, "--dry-run")
    assert "package lagoon-operator\n  channel stable: 3 of 3 bundles\n" in told
    assert f"{V2} stays: " in told
    assert "- channel alpha" in told
    result = changed(site, *argv)
    assert [(kept["bundle"], kept["channel"]) for kept in result["kept"]] == [(V2, "stable")]
    assert entries(site, "cat") == {"stable": {V1: "", V2: V1, V3: V2}}


def test_an_index_is_filtered_as_it_is_converted(site: Opm) -> None:
    argv = ("index", "filter", f"{NAME}@0.2.0", "-f", "oci:images/catalog:db", "-t", "oci:images/catalog:small")
    refused = site.attempt(*argv)
    assert (refused.returncode, "--to-fbc" in refused.stderr) == (1, True)
    done = site.attempt(*argv, "--to-fbc")
    assert done.stdout.startswith("oci:images/catalog:small@sha256:")
    assert "channel stable: 1 of 2 bundles" in done.stderr
    assert entries(site, "oci:images/catalog:small") == {"alpha": {V2: V1}, "stable": {V2: V1}}


def test_differences_of_either_kind(site: Opm) -> None:
    site("registry", "add", "-b", f"{FIRST},{SECOND}", "-d", "index.db")
    told = site("index", "diff", "index.db", "cat")
    assert told.splitlines() == ["~ package lagoon-operator", "  ~ description"]
    site("index", "deprecate", "--package", NAME, "--channel", "alpha", "-m", "Use `stable`.", "-f", "cat")
    assert (
        "  + deprecation of olm.channel alpha: Use `stable`." in site("index", "diff", "index.db", "cat").splitlines()
    )
    markdown = site("index", "diff", "index.db", "cat", "-o", "markdown")
    assert "| `olm.channel alpha` | added | `` Use `stable`. `` |" in markdown
    missing = site.attempt("index", "diff", "missing.db", "cat")
    assert (missing.returncode, "missing.db: no such file or directory" in missing.stderr) == (1, True)
