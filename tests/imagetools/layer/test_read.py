from __future__ import annotations

import gzip
import stat
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import DigestMismatch, InvalidImage
from opmkit.imagetools.layer import FoundFile, LayerSource, extract_tree, find_file, read_tree
from opmkit.imagetools.repository import verify_stream
from opmkit.imagetools.spec import media_types
from tests.kit.images import directory, hardlink, layer, layer_source, member, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import BinaryIO

OPAQUE = ".wh..wh..opq"


def on_disk(bottom_first: Sequence[LayerSource], destination: Path) -> dict[str, bytes]:
    """What extracting gives: the regular files, links to them too, by path."""
    extract_tree(bottom_first, destination)
    return {
        path.relative_to(destination).as_posix(): path.read_bytes() for path in destination.rglob("*") if path.is_file()
    }


def found(top_first: Sequence[LayerSource], path: str, destination: Path) -> bytes | None:
    if find_file(top_first, path, destination) is None:
        return None
    return destination.read_bytes()


LAYERS = {
    "files": ([[member("a/b", b"1"), member("c", b"")]], {"a/b": b"1", "c": b""}),
    "upper wins": ([[member("a", b"1")], [member("a", b"2")]], {"a": b"2"}),
    "last wins": ([[member("a", b"1"), member("a", b"2")]], {"a": b"2"}),
    "leading dots and slashes": ([[member("./a", b"1"), member("/b", b"2")]], {"a": b"1", "b": b"2"}),
    "whiteout": ([[member("a/b", b"1"), member("a/c", b"2")], [member("a/.wh.b")]], {"a/c": b"2"}),
    "whiteout of a directory": ([[member("a/b/c", b"1"), member("d", b"")], [member("a/.wh.b")]], {"d": b""}),
    "whiteout spares its own layer": ([[member("a", b"1")], [member("a", b"2"), member(".wh.a")]], {"a": b"2"}),
    "whiteout, then added again above": (
        [[member("a", b"1")], [member(".wh.a")], [member("a", b"3")]],
        {"a": b"3"},
    ),
    "whiteout of nothing": ([[member("a", b"1")], [member("x/.wh.y")]], {"a": b"1"}),
    "opaque": (
        [[member("a/b", b"1"), member("a/d/e", b"2"), member("f", b"")], [member("a/c", b"3"), member(f"a/{OPAQUE}")]],
        {"a/c": b"3", "f": b""},
    ),
    "opaque root": ([[member("a", b"1")], [member(OPAQUE), member("b", b"2")]], {"b": b"2"}),
    "aufs leftovers": ([[member(".wh..wh.plnk/1.2"), member(".wh..wh.aufs"), member("a", b"1")]], {"a": b"1"}),
    "file over directory": ([[member("a/b", b"1")], [member("a", b"2")]], {"a": b"2"}),
    "directory over file": ([[member("a", b"1")], [directory("a")]], {}),
    "file below a file": ([[member("a", b"1")], [member("a/b", b"2")]], {"a/b": b"2"}),
    "directories stay": ([[member("a/b", b"1")], [directory("a"), member("a/c", b"2")]], {"a/b": b"1", "a/c": b"2"}),
    "symbolic links": (
        [[member("a/b", b"1"), symlink("c", "a/b"), symlink("a/d", "../c"), symlink("e", "/a/d")]],
        {"a/b": b"1", "c": b"1", "a/d": b"1", "e": b"1"},
    ),
    "link to a directory above": (
        [[member("real/x", b"1"), symlink("data", "real"), symlink("x", "data/x")]],
        {"real/x": b"1", "x": b"1"},
    ),
    "link that leads nowhere": ([[symlink("a", "b"), symlink("c", "/etc/passwd"), symlink("d", "../../x")]], {}),
    "links in circles": ([[symlink("a", "b"), symlink("b", "a"), symlink("c", "c/d")]], {}),
    "hard links": (
        [[member("a", b"1"), hardlink("b/c", "a")], [hardlink("d", "./a")]],
        {"a": b"1", "b/c": b"1", "d": b"1"},
    ),
    "hard link keeps the old content": (
        [[member("a", b"1"), hardlink("b", "a")], [member("a", b"2")]],
        {"a": b"2", "b": b"1"},
    ),
    "hard link to nothing": ([[hardlink("a", "b"), member("c", b"")]], {"c": b""}),
    "a link of a lower layer is not followed": (
        [[member("t/x", b"1"), symlink("a", "t")], [member("a/x", b"2")]],
        {"t/x": b"1", "a/x": b"2"},
    ),
    "devices and pipes are left out": (
        [[member("null", kind=b"3"), member("pipe", kind=b"6"), member("a", b"1")]],
        {"a": b"1"},
    ),
    "no entries": ([[]], {}),
}


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, compression: str, tmp_path: Path) -> None:
    members, expected = LAYERS[name]
    layers = [layer(*entries, compression=compression) for entries in members]
    assert read_tree(reversed(layers), [""]) == expected
    on_their_way = {path: content for path, content in on_disk(layers, tmp_path / "out").items() if path != "data/x"}
    assert on_their_way == expected
    for path, content in expected.items():
        assert found(layers[::-1], path, tmp_path / "file") == content


@pytest.mark.parametrize(
    "name", ["whiteout", "whiteout of a directory", "opaque", "opaque root", "file over directory"]
)
def test_a_hidden_file_is_not_found(name: str, tmp_path: Path) -> None:
    members, expected = LAYERS[name]
    for entries in members:
        for info, _ in entries:
            if info.name not in expected and info.isreg():
                assert find_file([layer(*entries) for entries in members[::-1]], info.name, tmp_path / "file") is None


def test_prefixes(tmp_path: Path) -> None:
    lower = layer(member("manifests/a", b"1"), member("manifests-not/b", b"2"), member("metadata/c", b"3"))
    upper = layer(member("x/manifests/d", b"4"), symlink("manifests/l", "../x/manifests/d"), symlink("y", "metadata"))
    expected = {"manifests/a": b"1", "metadata/c": b"3"}
    assert read_tree([upper, lower], ["manifests/", "/metadata"]) == expected
    extract_tree([lower, upper], tmp_path, ["./manifests", "metadata"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", "metadata"]
    assert read_tree([upper, lower], ["x"]) == {"x/manifests/d": b"4"}
    assert read_tree([layer(member(".wh.a")), layer(member("a/b/c", b""))], ["a/b"]) == {}
    extract_tree([layer(member("a/b/c", b"")), layer(member(".wh.a"))], tmp_path / "2", ["a/b"])
    assert list((tmp_path / "2").iterdir()) == []


def test_the_result_is_in_order_of_path() -> None:
    assert list(read_tree([layer(member("b"), member("a")), layer(member("0"))], [""])) == ["0", "a", "b"]


def test_what_is_extracted_can_be_deleted(tmp_path: Path) -> None:
    extract_tree([layer(directory("a", 0), member("a/b", b"1", mode=0), directory("c", 0o4000))], tmp_path)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    extract_tree([layer(member("s", mode=0o4755))], tmp_path)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o755


def test_lower_layers_are_not_opened_for_a_file_found(tmp_path: Path) -> None:
    def closed() -> BinaryIO:
        raise AssertionError("opened")

    descriptor, _ = layer()
    unused = (descriptor, closed)
    above, there = layer(member("other")), layer(member("database/index.db", b"db"))
    assert find_file([above, there, unused], "/database/index.db", tmp_path / "x") == FoundFile(1, only_file=True)
    assert (tmp_path / "x").read_bytes() == b"db"
    assert find_file([above, layer(member(".wh.database")), unused], "database/index.db", tmp_path / "y") is None
    assert find_file([above, above], "database/index.db", tmp_path / "y") is None
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_finding_along_links(tmp_path: Path) -> None:
    bottom = layer(member("data/db/index.db", b"1"), symlink("database", "data/db"))
    assert found([layer(member("z")), bottom], "database/index.db", tmp_path / "x") == b"1"
    assert found([layer(directory("database")), bottom], "database/index.db", tmp_path / "x") is None
    assert found([layer(symlink("i", "database/index.db")), bottom], "i", tmp_path / "x") == b"1"
    linked = layer(member("a", b"2"), hardlink("b", "a"))
    assert found([layer(member(".wh.a")), linked], "b", tmp_path / "x") == b"2"
    with pytest.raises(InvalidImage, match="too many levels of links"):
        found([layer(symlink("a", "b"), symlink("b", "a"))], "a", tmp_path / "x")


def test_a_file_is_in_place_only_once_its_layer_is_verified(tmp_path: Path) -> None:
    _descriptor, opener = layer(member("a", b"1"))
    other, _ = layer(member("b", b"1"))
    bad = (other, lambda: verify_stream(opener(), other))
    with pytest.raises(DigestMismatch, match=other.digest):
        find_file([bad], "a", tmp_path / "x")
    with pytest.raises(DigestMismatch):
        read_tree([bad], [""])
    assert list(tmp_path.iterdir()) == []


def test_gzip_in_several_members_and_padding() -> None:
    content = tar([member("a", b"1" * 5000)])
    split = gzip.compress(content[:3000]) + gzip.compress(content[3000:]) + bytes(512)
    assert read_tree([layer_source(split, media_types.OCI_LAYER_GZIP)], [""]) == {"a": b"1" * 5000}


def test_an_unknown_type_is_sniffed() -> None:
    for compression in ("", "gzip", "zstd"):
        _, opener = layer(member("a", b"1"), compression=compression)
        with opener() as stream:
            content = stream.read()
        assert read_tree([layer_source(content, media_types.DOCKER_LAYER)], [""]) == {"a": b"1"}


def test_an_archive_without_end_blocks_and_an_empty_blob() -> None:
    content = tar([member("a", b"1")])[: 2 * 512]
    assert read_tree([layer_source(content)], [""]) == {"a": b"1"}
    assert read_tree([layer_source(b"")], [""]) == {}
