"""The index commands on file-based catalogs, in images and directories."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.forkserver import Command
from tests.kit.opm import Opm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.forkserver import ForkServer

NAME = "lagoon-operator"
FIRST, SECOND, THIRD = (f"oci:images/lagoon:{version}=quay.io/me/lagoon:{version}" for version in "123")
V1, V2, V3 = (f"{NAME}.v0.{minor}.0" for minor in "123")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three bundles, and indexes of the first two: a catalog image, a catalog directory and a database image."""
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
    """Return the command in a copy of the prepared directory."""
    shutil.copytree(made, opm.directory, dirs_exist_ok=True)
    return opm


def changed(opm: Opm, *argv: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(opm(*argv, "--output", "json"))
    return result


def entries(opm: Opm, index: str) -> dict[str, dict[str, str]]:
    """Return the replaced bundle of each entry by channel."""
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
def test_directories_and_images_change_in_the_same_way_as_the_dry_run_reports(site: Opm, argv: tuple[str, ...]) -> None:
    verb, *flags = argv
    before = site("render", "cat")
    dry = changed(site, "index", verb, *flags, "-f", "cat", "--dry-run")
    assert site("render", "cat") == before
    there = changed(site, "index", verb, *flags, "-f", "cat")
    image = changed(site, "index", verb, *flags, "-f", "oci:images/catalog:1", "-t", "oci:images/catalog:2")
    assert dry["packages"] == there["packages"] == image["packages"]
    assert bool(dry["packages"]) == (site("render", "cat") != before) == (verb not in ("prune", "prune-stranded"))
    assert site("index", "diff", "cat", "oci:images/catalog:2").strip() == "no difference"
    if verb != "rm":  # which leaves no document
        assert site("validate", "cat") == ""
    kept = site("image", "inspect", "oci:images/catalog:2")
    assert "serve /configs" in kept


def test_adding_at_once_or_in_turn_results_in_the_same_catalog(site: Opm) -> None:
    add = ("index", "add", "-b", THIRD, "-f")
    site(*add, "oci:images/catalog:db", "-t", "oci:images/catalog:converted", "--to-fbc")
    site(*add, "oci:images/catalog:1", "-t", "oci:images/catalog:added")
    assert entries(site, "oci:images/catalog:converted") == entries(site, "oci:images/catalog:added")
    assert entries(site, "oci:images/catalog:added")["alpha"] == {V1: "", V2: V1, V3: V2}


def test_changes_of_a_directory_at_the_same_time_are_all_made(site: Opm, forkserver: ForkServer) -> None:
    deprecate = ("index", "deprecate", "-f", "cat", "--package", NAME, "-m", "It is old.")
    objects = [("--bundle", V1), ("--bundle", V2), ("--channel", "alpha"), ("--channel", "stable")]
    done = forkserver.run([Command([*deprecate, *each], {}, site.directory) for each in objects])
    assert [each.status for each in done] == [0] * len(objects), [each.stderr for each in done]
    rendered = site("render", "cat", "--output", "yaml")
    (deprecations,) = [blob for blob in yaml.safe_load_all(rendered) if blob["schema"] == "olm.deprecations"]
    assert {entry["reference"]["name"] for entry in deprecations["entries"]} == {V1, V2, "alpha", "stable"}


def test_second_channel_head_is_an_error_with_graph_and_hint(site: Opm) -> None:
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
    ("argv", "status", "message"),
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
def test_failed_change_leaves_the_catalog_unchanged(
    site: Opm, argv: tuple[str, ...], status: int, message: str
) -> None:
    before = site("render", "cat")
    done = site.attempt("index", *argv)
    assert (done.returncode, site("render", "cat")) == (status, before)
    assert message in done.stderr


def test_filter_reports_retained_bundles_with_reasons(site: Opm) -> None:
    site("index", "add", "-b", THIRD, "-f", "cat")
    argv = ("index", "filter", f"{NAME}:stable@0.1.0 || 0.3.0", "-f", "cat")
    output = site(*argv, "--dry-run")
    assert "package lagoon-operator\n  channel stable: 3 of 3 bundles\n" in output
    assert f"{V2} stays: " in output
    assert "- channel alpha" in output
    result = changed(site, *argv)
    assert [(kept["bundle"], kept["channel"]) for kept in result["kept"]] == [(V2, "stable")]
    assert entries(site, "cat") == {"stable": {V1: "", V2: V1, V3: V2}}


def test_database_is_filtered_and_converted(site: Opm) -> None:
    argv = ("index", "filter", f"{NAME}@0.2.0", "-f", "oci:images/catalog:db", "-t", "oci:images/catalog:small")
    refused = site.attempt(*argv)
    assert (refused.returncode, "--to-fbc" in refused.stderr) == (1, True)
    done = site.attempt(*argv, "--to-fbc")
    assert done.stdout.startswith("oci:images/catalog:small@sha256:")
    assert "channel stable: 1 of 2 bundles" in done.stderr
    assert entries(site, "oci:images/catalog:small") == {"alpha": {V2: V1}, "stable": {V2: V1}}


def test_diff_of_catalogs_and_databases(site: Opm) -> None:
    site("registry", "add", "-b", f"{FIRST},{SECOND}", "-d", "index.db")
    output = site("index", "diff", "index.db", "cat")
    assert output.splitlines() == ["~ package lagoon-operator", "  ~ description"]
    site("index", "deprecate", "--package", NAME, "--channel", "alpha", "-m", "Use `stable`.", "-f", "cat")
    assert (
        "  + deprecation of olm.channel alpha: Use `stable`." in site("index", "diff", "index.db", "cat").splitlines()
    )
    markdown = site("index", "diff", "index.db", "cat", "-o", "markdown")
    assert "| `olm.channel alpha` | added | `` Use `stable`. `` |" in markdown
    page = site.attempt("index", "diff", "index.db", "cat", "-o", "html", "--fail-on", "changed,added-deprecation")
    assert page.stdout.startswith("<!doctype html>")
    assert "index.db → cat" in page.stdout
    assert page.returncode == 1
    assert "Error: " in page.stderr
    assert site.attempt("index", "diff", "index.db", "cat", "-o", "html", "--fail-on", "removed").returncode == 0
    missing = site.attempt("index", "diff", "missing.db", "cat", "-o", "html")
    assert missing.stdout == ""
    assert (missing.returncode, "missing.db: no such file or directory" in missing.stderr) == (1, True)
