"""``opm index copy`` between directories, databases and images."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_index_merge import packages, write_package
from tests.kit.catalogs import write_library
from tests.kit.opm import PROGRAM
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

COPIED = [
    "package shelf: copied from library.db",
    "package book: copied from library.db; shelf.v1.2.0 of package shelf requires the API books.example.com/v1 Book; "
    "shelf.v1.2.0 of package shelf requires the package book >=0.1.0",
]


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Write a database in which ``shelf`` requires ``book``, and a catalog with ``reef``."""
    write_library(opm.directory / "library.db")
    write_package(opm.directory / "catalog", "reef", "quay.io/me/reef:1")
    return opm


def test_package_of_a_database_is_copied_to_a_catalog_in_place(site: Opm) -> None:
    before = (site.directory / "catalog" / "reef.json").read_bytes()
    preview = site("index", "copy", "shelf", "--from", "library.db", "--to", "catalog", "--dry-run")
    assert preview.splitlines()[: len(COPIED)] == COPIED
    assert packages(site, "catalog") == ["reef"]
    done = site.attempt("index", "copy", "shelf", "--from", "library.db", "--to", "catalog")
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (0, "", COPIED)
    assert packages(site, "catalog") == ["book", "reef", "shelf"]
    assert (site.directory / "catalog" / "reef.json").read_bytes() == before
    assert site("validate", "catalog") == ""
    again = json.loads(
        site("index", "copy", "shelf", "book", "--from", "library.db", "--to", "catalog", "--output", "json")
    )
    assert [(each["package"], each["action"]) for each in again["copied"]] == [("shelf", "equal"), ("book", "equal")]


def test_rows_are_copied_between_databases(site: Opm) -> None:
    site("index", "copy", "book", "--from", "library.db", "--output-dir", "books")
    assert packages(site, "books") == ["book"]
    (site.directory / "new.db").touch()
    site("index", "copy", "shelf", "--from", "library.db", "--to", "new.db")
    assert (site.directory / "new.db").read_bytes() == (site.directory / "library.db").read_bytes()
    failed = site.attempt("index", "copy", "shelf:alpha", "--from", "library.db", "--to", "new.db")
    assert (failed.returncode, "--to-fbc" in failed.stderr) == (1, True), failed.stderr
    failed = site.attempt("index", "copy", "reef", "--from", "catalog", "--to", "new.db")
    assert (failed.returncode, "--to-fbc" in failed.stderr) == (1, True), failed.stderr


def test_images_are_read_and_published(site: Opm, registry: Registry) -> None:
    prefix = f"{registry.host}/copy-{site.directory.name.replace('_', '-').lower()}"
    base = ("-i", "scratch", "--push", "--use-http")
    for source, name in (("library.db", "test"), ("catalog", "prod")):
        site("index", "prune-stranded", "-f", source, "-t", f"{prefix}/{name}:1", *base)
    arguments = ("index", "copy", "shelf", "--from", f"{prefix}/test:1", "--to", f"{prefix}/prod:1")
    printed = site(*arguments, "-t", f"{prefix}/prod:2", *base)
    assert printed.startswith(f"{prefix}/prod:2@sha256:")
    site(*arguments, "--output-dir", "copied", "--use-http")
    assert site("index", "diff", f"{prefix}/prod:2", "copied", "--use-http") == "no difference\n"
    moved = site(*arguments, "-t", f"{prefix}/prod:1", "--on-conflict", "rebase", *base)
    assert moved.split("@")[1] == printed.split("@")[1]


def test_conflicts_are_listed_with_both_sides(site: Opm) -> None:
    write_package(site.directory / "other", "reef", "quay.io/other/reef:1")
    before = sorted(site.directory.rglob("*"))
    arguments = ("index", "copy", "reef", "--from", "other", "--to", "catalog")
    failed = site.attempt(*arguments)
    assert failed.returncode == 1
    assert failed.stderr.splitlines() == [
        'Error: package "reef": different content in catalog and other',
        "  bundle reef.v1: image: quay.io/me/reef:1 in catalog; quay.io/other/reef:1 in other",
        "  hint: choose the source of whole packages with --prefer reef=catalog",
    ]
    failed = site.attempt(*arguments, "--output", "json")
    assert json.loads(failed.stderr.splitlines()[0])["conflicts"] == [
        {
            "package": "reef",
            "left": ["catalog"],
            "right": ["other"],
            "differences": [
                {"subject": "bundle reef.v1: image", "left": "quay.io/me/reef:1", "right": "quay.io/other/reef:1"}
            ],
        }
    ]
    assert sorted(site.directory.rglob("*")) == before
    done = site.attempt(*arguments, "--prefer", "reef=other")
    assert done.stderr == "package reef: copied from other, preferred to catalog\n"
    assert site("index", "diff", "catalog", "other") == "no difference\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("reef",), 'required flag(s) "from" not set'),
        (("reef", "--from", "catalog"), "pass --tag, --output-dir or --generate"),
        (("ref", "--from", "catalog", "--output-dir", "new"), "did you mean reef?"),
        (("reef:", "--from", "catalog", "--output-dir", "new"), "missing channel name"),
        (("reef", "--from", "./none", "--output-dir", "new"), "./none: no such file or directory"),
        (("reef", "--from", "catalog", "--output-dir", "new", "--prefer", "x"), "preferred source x"),
        (("reef", "--from", "catalog", "--output-dir", "new", "-t", "x"), "--output-dir and --tag"),
        (("reef", "--from", "catalog", "-t", "x", "--on-conflict", "rebase"), "with --to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes(site: Opm, flags: tuple[str, ...], message: str) -> None:
    done = site.attempt("index", "copy", *flags)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert not (site.directory / "new").exists()


@pytest.mark.slow
def test_concurrent_copies_to_one_tag_lose_nothing(site: Opm, registry: Registry) -> None:
    tag = f"{registry.host}/copies-{site.directory.name.replace('_', '-').lower()}:1"
    base = ("-i", "scratch", "--push", "--use-http")
    site("index", "prune-stranded", "-f", "catalog", "-t", tag, *base)
    names = [f"wave-{number}" for number in range(4)]
    for name in names:
        write_package(site.directory / name, name, f"quay.io/me/{name}:1")
    writers = [
        subprocess.Popen(
            [PROGRAM, "index", "copy", name, "--from", name, "--to", tag, "-t", tag, "--on-conflict", "rebase", *base],
            cwd=site.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0, err
    site("index", "merge", tag, "catalog", "--output-dir", "result", "--use-http")
    assert packages(site, "result") == ["reef", *names]
