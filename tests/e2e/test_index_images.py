"""``opm index images`` with a directory, a database and an image as sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_index_merge import write_package
from tests.kit.bundles import bundle_content, bundle_labels, push_image
from tests.kit.catalogs import write_library
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

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


def push_bundle(prefix: str, name: str, scratch: Path, *related: str) -> str:
    """Push a bundle with related images and return its name."""
    content = bundle_content(name, "1.0.0")
    listed = ", ".join(f"{{name: r{number}, image: {image!r}}}" for number, image in enumerate(related))
    content["manifests/csv.yaml"] = content["manifests/csv.yaml"].replace(
        b"version: 1.0.0}", f"version: 1.0.0, relatedImages: [{listed}]}}".encode()
    )
    scratch.mkdir()
    return push_image(f"{prefix}/{name}:1", small_image(scratch, content, labels=bundle_labels(name)))


def test_related_bundles_are_followed(opm: Opm, registry: Registry, tmp_path: Path) -> None:
    prefix = f"{registry.host}/nested-{opm.directory.name.replace('_', '-').lower()}"
    leaf = push_image(f"{prefix}/leaf:1", small_image(tmp_path, {"a": b""}))
    child = push_bundle(prefix, "child", tmp_path / "child", leaf, f"{prefix}/parent:1")
    parent = push_bundle(prefix, "parent", tmp_path / "parent", child, leaf)
    flat = json.loads(opm("index", "images", parent, "-o", "json", "--use-http"))
    assert [each["image"] for each in flat] == [child, leaf, parent]
    flags = ("--recursive", "--use-http")
    assert opm("index", "images", parent, "--only", "bundle", "-o", "name", *flags).splitlines() == [child, parent]
    images = json.loads(opm("index", "images", parent, "-o", "json", *flags))
    listed = {each["image"]: each["needed_by"] for each in images}
    assert {(use["kind"], use["bundle"]) for use in listed[leaf]} == {
        ("related", "parent.v1.0.0"), ("related", "child.v1.0.0")
    }  # fmt: skip
    assert {(use["kind"], use["bundle"]) for use in listed[child]} == {
        ("related", "parent.v1.0.0"), ("bundle", "child.v1.0.0")
    }  # fmt: skip
    lost = push_bundle(prefix, "lost", tmp_path / "lost", f"{prefix}/absent:1")
    failed = opm.attempt("index", "images", lost, *flags)
    assert (failed.returncode, f"{prefix}/absent:1" in failed.stderr, failed.stdout) == (1, True, "")
