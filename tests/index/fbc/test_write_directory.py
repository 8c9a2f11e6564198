"""Catalogs written as directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.errors import DiskError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs, OtherBlob, PackageBlob
from opmkit.index.fbc.load import read_blobs
from opmkit.index.fbc.write import to_json, to_yaml, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = Blobs(
    packages=(PackageBlob("b"), PackageBlob("a")),
    others=(
        OtherBlob("mine", "", "", {"schema": "mine"}),
        OtherBlob("mine", "", "c", {"schema": "mine", "package": "c"}),
    ),
)


@pytest.mark.parametrize(("extension", "encode"), [("json", to_json), ("yaml", to_yaml)])
def test_each_package_has_a_directory(tmp_path: Path, extension: str, encode: Any) -> None:
    directory = tmp_path / "deep" / "out"
    write_catalog(BLOBS, directory, extension, encode)
    files = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    assert files == [
        f"a/catalog.{extension}",
        f"b/catalog.{extension}",
        f"c/catalog.{extension}",
        f"catalog.{extension}",
    ]
    assert sorted(package.name for package in read_blobs(directory).packages) == ["a", "b"]
    assert len(read_blobs(directory).others) == 2
    assert sorted(path.name for path in directory.parent.iterdir()) == ["out"]
    assert directory.stat().st_mode & 0o055 == 0o055


def test_only_empty_directories_are_filled(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    write_catalog(BLOBS, empty, "json", to_json)
    for existing in (empty, empty / "catalog.json"):
        with pytest.raises(CatalogError, match="not an empty directory"):
            write_catalog(BLOBS, existing, "json", to_json)


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "n" * 300])
def test_invalid_package_names_leave_nothing_behind(tmp_path: Path, name: str) -> None:
    with pytest.raises((CatalogError, DiskError)):
        write_catalog(Blobs(packages=(PackageBlob("a"), PackageBlob(name))), tmp_path / "out", "json", to_json)
    assert list(tmp_path.iterdir()) == []
