"""Extracting, finding and reading files give the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import extract_tree, read_tree
from tests.imagetools.layer.helpers import OPAQUE, extract_files, find_content
from tests.kit.images import Member, directory, hardlink, layer, member, symlink

if TYPE_CHECKING:
    from pathlib import Path


LAYERS: dict[str, tuple[list[list[Member]], dict[str, bytes]]] = {
    "files": ([[member("a/b", b"1"), member("c", b"")]], {"a/b": b"1", "c": b""}),
    "upper layer wins": ([[member("a", b"1")], [member("a", b"2")]], {"a": b"2"}),
    "last entry wins": ([[member("a", b"1"), member("a", b"2")]], {"a": b"2"}),
    "leading dots and slashes": ([[member("./a", b"1"), member("/b", b"2")]], {"a": b"1", "b": b"2"}),
    "whiteout": ([[member("a/b", b"1"), member("a/c", b"2")], [member("a/.wh.b")]], {"a/c": b"2"}),
    "whiteout of a directory": ([[member("a/b/c", b"1"), member("d", b"")], [member("a/.wh.b")]], {"d": b""}),
    "whiteout in the same layer": ([[member("a", b"1")], [member("a", b"2"), member(".wh.a")]], {"a": b"2"}),
    "whiteout, then added again": (
        [[member("a", b"1")], [member(".wh.a")], [member("a", b"3")]],
        {"a": b"3"},
    ),
    "whiteout of a missing file": ([[member("a", b"1")], [member("x/.wh.y")]], {"a": b"1"}),
    "opaque": (
        [[member("a/b", b"1"), member("a/d/e", b"2"), member("f", b"")], [member("a/c", b"3"), member(f"a/{OPAQUE}")]],
        {"a/c": b"3", "f": b""},
    ),
    "opaque root": ([[member("a", b"1")], [member(OPAQUE), member("b", b"2")]], {"b": b"2"}),
    "aufs metadata": ([[member(".wh..wh.plnk/1.2"), member(".wh..wh.aufs"), member("a", b"1")]], {"a": b"1"}),
    "file over directory": ([[member("a/b", b"1")], [member("a", b"2")]], {"a": b"2"}),
    "directory over file": ([[member("a", b"1")], [directory("a")]], {}),
    "file below a file": ([[member("a", b"1")], [member("a/b", b"2")]], {"a/b": b"2"}),
    "directory entry keeps lower files": (
        [[member("a/b", b"1")], [directory("a"), member("a/c", b"2")]],
        {"a/b": b"1", "a/c": b"2"},
    ),
    "symbolic links": (
        [[member("a/b", b"1"), symlink("c", "a/b"), symlink("a/d", "../c"), symlink("e", "/a/d")]],
        {"a/b": b"1", "c": b"1", "a/d": b"1", "e": b"1"},
    ),
    "link to a directory": (
        [[member("real/x", b"1"), symlink("data", "real"), symlink("x", "data/x")]],
        {"real/x": b"1", "x": b"1"},
    ),
    "dangling link": ([[symlink("a", "b"), symlink("c", "/etc/passwd"), symlink("d", "../../x")]], {}),
    "link cycle": ([[symlink("a", "b"), symlink("b", "a"), symlink("c", "c/d")]], {}),
    "hard links": (
        [[member("a", b"1"), hardlink("b/c", "a")], [hardlink("d", "./a")]],
        {"a": b"1", "b/c": b"1", "d": b"1"},
    ),
    "hard link keeps the old content": (
        [[member("a", b"1"), hardlink("b", "a")], [member("a", b"2")]],
        {"a": b"2", "b": b"1"},
    ),
    "hard link to a missing file": ([[hardlink("a", "b"), member("c", b"")]], {"c": b""}),
    "link in a lower layer is not followed": (
        [[member("t/x", b"1"), symlink("a", "t")], [member("a/x", b"2")]],
        {"t/x": b"1", "a/x": b"2"},
    ),
    "devices and pipes are skipped": (
        [[member("null", kind=b"3"), member("pipe", kind=b"6"), member("a", b"1")]],
        {"a": b"1"},
    ),
    "no entries": ([[]], {}),
}
"""The members of layers, bottom first, and the files of the image."""


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
@pytest.mark.parametrize("name", LAYERS)
def test_all_functions_read_the_same_files(name: str, compression: str, tmp_path: Path) -> None:
    members, expected = LAYERS[name]
    layers = [layer(*entries, compression=compression) for entries in members]
    assert read_tree(reversed(layers), [""]) == expected
    extracted = extract_files(layers, tmp_path / "out")
    extracted.pop("data/x", None)  # below a link to a directory, which read_tree does not follow
    assert extracted == expected
    for path, content in expected.items():
        assert find_content(layers[::-1], path, tmp_path / "file") == content


def test_prefixes(tmp_path: Path) -> None:
    lower = layer(member("manifests/a", b"1"), member("manifests-not/b", b"2"), member("metadata/c", b"3"))
    upper = layer(member("x/manifests/d", b"4"), symlink("y", "metadata"))
    expected = {"manifests/a": b"1", "metadata/c": b"3"}
    assert read_tree([upper, lower], ["manifests/", "/metadata"]) == expected
    extract_tree([lower, upper], tmp_path, ["./manifests", "metadata"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifests", "metadata"]
    assert read_tree([upper, lower], ["x"]) == {"x/manifests/d": b"4"}
    assert read_tree([layer(member(".wh.a")), layer(member("a/b/c", b""))], ["a/b"]) == {}
    extract_tree([layer(member("a/b/c", b"")), layer(member(".wh.a"))], tmp_path / "2", ["a/b"])
    assert list((tmp_path / "2").iterdir()) == []


def test_links_do_not_bring_other_content_to_prefixes() -> None:
    file, real = member("d/a", b"1"), member("real/b", b"2")
    for entries in (
        (file, real, symlink("d/b", "../real/b")),
        (file, real, hardlink("d/b", "real/b")),
        (file, real, symlink("d/c", "../c"), symlink("c", "real/b")),
        (file, symlink("l", "d"), member("l/b", b"2")),
        (file, symlink("l", "d"), member("l/a", b"2")),
        (file, symlink("d/l", "."), member("d/l/a", b"2")),
        (real, symlink("d", "real")),
    ):
        with pytest.raises(InvalidImage, match=r"is a link to|is written through a link"):
            read_tree([layer(*entries)], ["d"])
        lower, upper = layer(*entries[:-1]), layer(entries[-1])
        with pytest.raises(InvalidImage, match=r"is a link to|is written through a link"):
            read_tree([upper, lower], ["d"])
    with pytest.raises(InvalidImage, match="is a link to"):
        read_tree([layer(real, symlink("d", "real"))], ["d/e"])
    inner = layer(file, symlink("d/b", "a"), hardlink("d/c", "d/a"), symlink("d/e", "missing"), symlink("x", "/etc"))
    assert read_tree([inner], ["d"]) == {"d/a": b"1", "d/b": b"1", "d/c": b"1"}
