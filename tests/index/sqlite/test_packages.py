"""Copying rows between databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import parse_bundle
from opmkit.index.errors import BundleExists
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import open_database, replace_database
from opmkit.index.sqlite.packages import copy_package
from tests.kit.catalogs import write_library
from tests.reference.samples import Sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "library.db"
    write_library(path)
    return path


def copy(source: Path, target: Path, *packages: str) -> None:
    with open_database(source) as before, replace_database(target) as after:
        for package in packages:
            copy_package(before, after, package)


@pytest.mark.parametrize("packages", [("book", "shelf"), ("shelf", "book")])
def test_copy_of_all_packages_has_equal_bytes(library: Path, tmp_path: Path, packages: tuple[str, ...]) -> None:
    copy(library, tmp_path / "copy.db", *packages)
    assert (tmp_path / "copy.db").read_bytes() == library.read_bytes()


def test_bundle_of_another_package_is_not_overwritten(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    files = Sample("shop", "1.0.0").files()
    renamed = {path: text.replace(b"shop.v1.0.0", b"book.v0.1.0") for path, text in files.items()}
    with replace_database(target) as database:
        add_bundles(database, [parse_bundle(renamed, image="quay.io/example/shop:1")])
    before = target.read_bytes()
    with pytest.raises(
        BundleExists, match=r'bundle "book\.v0\.1\.0" of package "book": already exists in package shop'
    ):
        copy(library, target, "book")
    assert target.read_bytes() == before
