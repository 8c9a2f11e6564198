"""``opm index merge`` with directories, databases and images as sources."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.catalogs import write_library
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


def write_package(root: Path, name: str, image: str, *more: dict[str, Any]) -> None:
    """Add a package with one bundle to a catalog directory."""
    value = {"packageName": name, "version": "1.0.0"}
    documents: list[dict[str, Any]] = [
        {"schema": "olm.package", "name": name, "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": name, "name": "stable", "entries": [{"name": f"{name}.v1"}]},
        {
            "schema": "olm.bundle",
            "package": name,
            "name": f"{name}.v1",
            "image": image,
            "properties": [{"type": "olm.package", "value": value}],
        },
        *more,
    ]
    root.mkdir(exist_ok=True)
    (root / f"{name}.json").write_text("".join(map(json.dumps, documents)))


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Write a database with ``book`` and ``shelf``, and two catalogs with a common package and different others."""
    a, b = opm.directory / "a", opm.directory / "b"
    write_library(opm.directory / "index.db")
    deprecation = {"reference": {"schema": "olm.package"}, "message": "Old."}
    write_package(
        a,
        "lagoon",
        "quay.io/me/lagoon:1",
        {"schema": "olm.deprecations", "package": "lagoon", "entries": [deprecation]},
        {"schema": "acme.note", "package": "lagoon", "text": "note"},
    )
    for root in (a, b):
        write_package(root, "reef", "quay.io/me/reef:1")
    write_package(b, "atoll", "quay.io/me/atoll:1")
    return opm


def packages(opm: Opm, index: str) -> list[str]:
    return [row["name"] for row in json.loads(opm("alpha", "list", "packages", index, "-o", "json"))]


def test_directories_and_databases_are_merged_to_a_directory(site: Opm) -> None:
    done = site.attempt("index", "merge", "a", "b", "index.db", "--output-dir", "merged")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "package atoll: from b",
        "package book: from index.db",
        "package lagoon: from a",
        "package reef: from a, equal in b",
        "package shelf: from index.db",
    ]
    assert site("validate", "merged") == ""
    assert packages(site, "merged") == ["atoll", "book", "lagoon", "reef", "shelf"]
    rendered = site("render", "merged")
    assert ('"acme.note"' in rendered, '"olm.deprecations"' in rendered) == (True, True)
    site("index", "merge", "index.db", "b", "a", "--output-dir", "again")
    assert site("render", "again") == rendered
    refused = site.attempt("index", "merge", "a", "b", "--output-dir", "merged")
    assert (refused.returncode, "not an empty directory" in refused.stderr) == (1, True)


def test_conflict_lists_both_sides_and_writes_nothing(site: Opm) -> None:
    write_package(site.directory / "b", "reef", "quay.io/other/reef:1")
    before = sorted(site.directory.iterdir())
    done = site.attempt("index", "merge", "a", "b", "--output-dir", "merged")
    assert done.returncode == 1
    assert 'Error: package "reef": different content in a and b\n' in done.stderr
    assert "  bundle reef.v1: image: quay.io/me/reef:1 in a; quay.io/other/reef:1 in b\n" in done.stderr
    assert "--prefer reef=a" in done.stderr
    failed = site.attempt("index", "merge", "a", "b", "-t", "oci:images:1", "-i", "scratch", "--output", "json")
    assert (failed.stdout, json.loads(failed.stderr.splitlines()[0])["error"]["exit_code"]) == ("", 1)
    assert sorted(site.directory.iterdir()) == before

    preview = json.loads(site("index", "merge", "a", "b", "--prefer", "b,first", "--dry-run", "--output", "json"))
    assert preview["merged"][-1] == {"package": "reef", "source": "b", "equal": [], "overruled": ["a"]}
    assert sorted(site.directory.iterdir()) == before
    site("index", "merge", "a", "b", "--prefer", "last", "--output-dir", "merged")
    assert "quay.io/other/reef:1" in site("render", "merged")


def test_images_are_merged_and_pushed(site: Opm, registry: Registry) -> None:
    prefix = f"{registry.host}/merge-{site.directory.name.replace('_', '-').lower()}"
    base = ("-i", "scratch", "--push", "--use-http")
    for source in ("a", "index.db"):
        name = f"{prefix}/{source.replace('.', '-')}:1"
        site("index", "prune-stranded", "-f", source, "-t", name, *base)
    sources = (f"{prefix}/a:1", "b", f"{prefix}/index-db:1")
    printed = site("index", "merge", *sources, "-t", f"{prefix}/all:1", *base)
    assert printed.startswith(f"{prefix}/all:1@sha256:")
    site("index", "merge", "a", "b", "index.db", "--output-dir", "merged")
    assert site("index", "diff", f"{prefix}/all:1", "merged", "--use-http") == "no difference\n"
    assert site("index", "merge", *sources, "-t", f"{prefix}/all:2", *base).split("@")[1] == printed.split("@")[1]
    site("index", "merge", *sources, "--generate", "--use-http")
    assert site("index", "diff", "catalog", "merged") == "no difference\n"
    assert (site.directory / "index.Dockerfile").is_file()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("a", "--output-dir", "new"), "run 'opm index build' to build an image from one index"),
        (("a", "b"), "pass --tag, --output-dir or --generate"),
        (("a", "b", "--output-dir", "new", "--tag", "x"), "--output-dir and --tag are mutually exclusive"),
        (("a", "b", "--output-dir", "new", "--push"), "--output-dir and --push are mutually exclusive"),
        (("a", "b", "--tag", "x", "--on-conflict", "rebase"), "--on-conflict rebase: unsupported"),
        (("a", "b", "--output-dir", "new", "--prefer", "fist"), "did you mean first?"),
        (("a", "./c", "--output-dir", "new"), "./c: no such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes(site: Opm, flags: tuple[str, ...], message: str) -> None:
    done = site.attempt("index", "merge", *flags)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert not (site.directory / "new").exists()


def test_fragments_only_change_packages_of_their_owners(opm: Opm) -> None:
    shutil.copytree(FIXTURES / "teams", opm.directory / "teams")
    arguments = ("index", "merge", "teams/published", "teams/reef/", "./teams/tide", "--owners", "teams/owners.yaml")
    done = opm.attempt(*arguments, "--output-dir", "merged")
    assert done.stderr.splitlines() == [
        "package reef-operator: from teams/reef/, preferred to teams/published",
        "package tide-operator: from ./teams/tide, preferred to teams/published",
    ]
    images = opm("index", "images", "merged", "reef-operator", "--only", "bundle", "-o", "name")
    assert images.endswith("bundle:1.1.0\n")

    changed = (opm.directory / "teams/reef/reef-operator.yaml").read_text().replace("1.1.0", "1.2.0")
    (opm.directory / "teams/tide/reef.yaml").write_text(changed)
    failed = opm.attempt(*arguments, "--output-dir", "new")
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (
        1,
        'Error: package "reef-operator": ./teams/tide does not own it: it belongs to reef',
    )
    failed = opm.attempt(*arguments, "--output-dir", "new", "--output", "json")
    assert json.loads(failed.stderr.splitlines()[0])["violations"][0]["owners"] == ["reef"]
    assert not (opm.directory / "new").exists()
    (opm.directory / "teams/owners.yaml").write_text("reef: [reef-operator]\nteide: [tide-operator]\n")
    warned = opm.attempt(*arguments, "--dry-run", "--prefer", "last")
    assert (warned.returncode, "owners file: teide: not among the indexes" in warned.stderr) == (0, True)
    (opm.directory / "teams/owners.yaml").write_text("reef: reef-operator\n")
    failed = opm.attempt(*arguments, "--output-dir", "new")
    assert (failed.returncode, "owners.yaml:1:1: reef: not a list" in failed.stderr) == (1, True)
