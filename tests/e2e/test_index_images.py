"""``opm index images`` with a directory, a database and an image as sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_index_merge import write_package
from tests.kit.catalogs import write_library

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PROXY = "quay.io/me/proxy:1"


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Write a database with ``book`` and ``shelf``, and a catalog of two packages with a common image."""
    write_library(opm.directory / "index.db")
    for name in ("reef", "atoll"):
        write_package(opm.directory / "catalog", name, f"quay.io/me/{name}:1")
        path = opm.directory / "catalog" / f"{name}.json"
        related = f'"relatedImages": [{{"name": "proxy", "image": "{PROXY}"}}], "image": "quay.io/me/{name}:1"'
        path.write_text(path.read_text().replace(f'"image": "quay.io/me/{name}:1"', related))
    return opm


def test_images_are_listed_with_the_bundles_that_need_them(site: Opm) -> None:
    assert site("index", "images", "catalog").splitlines() == [
        "IMAGE               KIND     PACKAGE  NEEDED BY",
        "quay.io/me/atoll:1  bundle   atoll    atoll.v1",
        "quay.io/me/proxy:1  related  atoll    atoll.v1",
        "quay.io/me/proxy:1  related  reef     reef.v1",
        "quay.io/me/reef:1   bundle   reef     reef.v1",
    ]
    assert json.loads(site("index", "images", "catalog", "reef:stable", "--only", "related", "-o", "json")) == [
        {"image": PROXY, "needed_by": [{"kind": "related", "package": "reef", "bundle": "reef.v1", "name": "proxy"}]}
    ]
    names = site("index", "images", "catalog", "-o", "name")
    assert names.splitlines() == ["quay.io/me/atoll:1", PROXY, "quay.io/me/reef:1"]


def test_databases_and_images_are_listed_alike(site: Opm, registry: Registry) -> None:
    name = f"{registry.host}/images-{site.directory.name.replace('_', '-').lower()}:1"
    site("index", "prune-stranded", "-f", "index.db", "-t", name, "-i", "scratch", "--push", "--use-http")
    listed = site("index", "images", "index.db", "-o", "json")
    assert len(json.loads(listed)) >= 4
    assert site("index", "images", name, "-o", "json", "--use-http") == listed
    books = site("index", "images", "index.db", "book", "-o", "name", "--only", "bundle")
    assert books == "quay.io/example/book:0.1.0\n"


def test_mistakes_and_hostile_names(site: Opm) -> None:
    for arguments, message in (
        (("catalog", "ref"), "did you mean reef?"),
        (("catalog", "reef:"), "missing channel name"),
        (("./none",), "./none: no such file or directory"),
    ):
        failed = site.attempt("index", "images", *arguments)
        assert (failed.returncode, message in failed.stderr) == (1, True), failed.stderr
    write_package(site.directory / "catalog", "storm", "quay.io/me/\x1b[31mstorm")
    for output in ("text", "name", "json"):
        assert "\x1b" not in site("index", "images", "catalog", "-o", output)
    (site.directory / "catalog" / "wrong.json").write_text('{"schema": "olm.bundle", "relatedImages": [1]}')
    failed = site.attempt("index", "images", "catalog")
    assert (failed.returncode, "wrong.json:1" in failed.stderr) == (1, True)
