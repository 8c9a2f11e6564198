"""Copying one file out of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import DigestMismatch, InvalidImage
from opmkit.imagetools.layer import FoundFile, find_file, read_tree
from opmkit.imagetools.repository import verify_stream
from tests.imagetools.layer.helpers import find_content
from tests.imagetools.layer.test_layer_reading import LAYERS
from tests.kit.images import directory, hardlink, layer, member, symlink

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


@pytest.mark.parametrize(
    "name", ["whiteout", "whiteout of a directory", "opaque", "opaque root", "file over directory"]
)
def test_hidden_file_is_not_found(name: str, tmp_path: Path) -> None:
    members, expected = LAYERS[name]
    layers = [layer(*entries) for entries in members[::-1]]
    hidden = [info.name for entries in members for info, _ in entries if info.isreg() and info.name not in expected]
    assert all(find_file(layers, path, tmp_path / "file") is None for path in hidden)


def test_lower_layers_are_not_opened(tmp_path: Path) -> None:
    def fail() -> BinaryIO:
        raise AssertionError("opened")

    descriptor, _ = layer()
    unused = (descriptor, fail)
    upper, database = layer(member("other")), layer(member("database/index.db", b"db"))
    assert find_file([upper, database, unused], "/database/index.db", tmp_path / "x") == FoundFile(1, only_file=True)
    assert (tmp_path / "x").read_bytes() == b"db"
    assert find_file([upper, layer(member(".wh.database")), unused], "database/index.db", tmp_path / "y") is None
    assert find_file([upper, upper], "database/index.db", tmp_path / "y") is None
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_links_are_followed(tmp_path: Path) -> None:
    bottom = layer(member("data/db/index.db", b"1"), symlink("database", "data/db"))
    assert find_content([layer(member("z")), bottom], "database/index.db", tmp_path / "x") == b"1"
    assert find_content([layer(directory("database")), bottom], "database/index.db", tmp_path / "x") is None
    assert find_content([layer(symlink("i", "database/index.db")), bottom], "i", tmp_path / "x") == b"1"
    linked = layer(member("a", b"2"), hardlink("b", "a"))
    assert find_content([layer(member(".wh.a")), linked], "b", tmp_path / "x") == b"2"
    with pytest.raises(InvalidImage, match="too many levels of links"):
        find_content([layer(symlink("a", "b"), symlink("b", "a"))], "a", tmp_path / "x")


def test_file_is_created_after_verification(tmp_path: Path) -> None:
    _descriptor, opener = layer(member("a", b"1"))
    other, _ = layer(member("b", b"1"))
    mismatched = (other, lambda: verify_stream(opener(), other))
    with pytest.raises(DigestMismatch, match=other.digest):
        find_file([mismatched], "a", tmp_path / "x")
    with pytest.raises(DigestMismatch):
        read_tree([mismatched], [""])
    assert list(tmp_path.iterdir()) == []
