"""Extraction of layers to disk."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import extract_tree, find_file, read_tree
from tests.kit.images import Member, directory, hardlink, layer, member, symlink


@pytest.mark.parametrize(
    "members",
    [
        [symlink("a", "/outside"), member("a/file", b"evil")],
        [symlink("a", "../outside"), member("a/file", b"evil")],
        [symlink("a", "../outside/file"), member("a", b"evil")],
        [symlink("a", "../outside"), directory("a"), member("a/file", b"evil")],
        [symlink("a", "../outside"), member("a/.wh.file")],
        [symlink("a", "../outside"), member("a/.wh..wh..opq")],
        [symlink("a", "../outside"), symlink("a/b", "x")],
        [symlink("a", "../outside"), hardlink("b", "a/file"), member("b", b"evil")],
        [symlink("a", "../outside/file"), hardlink("b", "a")],
        [directory("d"), symlink("d/a", "../.."), symlink("b", "d/a/outside"), member("b/file", b"evil")],
        [symlink("a", "."), symlink("b", "a/../../outside"), member("b/file", b"evil")],
    ],
)
@pytest.mark.parametrize("one_layer", [True, False])
def test_no_write_through_a_link(members: list[Member], one_layer: bool, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"good")
    inside = tmp_path / "inside"
    extract_tree([layer(*members)] if one_layer else [layer(entry) for entry in members], inside)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == b"good"
    root = inside.resolve()
    for path in inside.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(root), "a link leads outside"
        assert not path.is_file() or path.read_bytes() != b"good"


NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c", "b/a", "./a", "/b", "a/../b", "..", "a/.."])
TARGETS = st.sampled_from([".", "..", "a", "b", "../a", "/a/b", "../../outside", "/outside", "b/../../outside", "a/b"])
ENTRIES = st.one_of(
    NAMES.map(lambda name: member(name, b"evil")),
    NAMES.map(directory),
    st.tuples(NAMES, TARGETS).map(lambda pair: symlink(*pair)),
    st.tuples(NAMES, TARGETS).map(lambda pair: hardlink(*pair)),
    NAMES.map(lambda name: member("/".join((*name.split("/")[:-1], ".wh." + name.split("/")[-1])))),
    NAMES.map(lambda name: member(f"{name}/.wh..wh..opq")),
)


@pytest.mark.slow
@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=3))
@settings(max_examples=300)
def test_nothing_is_written_outside(tmp_path_factory: pytest.TempPathFactory, members: list[list[Member]]) -> None:
    scratch = tmp_path_factory.mktemp("layers")
    (scratch / "outside").mkdir()
    (scratch / "outside/file").write_bytes(b"good")
    layers = [layer(*entries) for entries in members]
    inside = scratch / "in"
    try:
        extract_tree(layers, inside)
        read_tree(reversed(layers), [""])
        find_file(layers[::-1], "a/b", scratch / "found")
    except InvalidImage:
        pass
    assert {path.name for path in scratch.iterdir()} <= {"outside", "in", "found"}
    assert (scratch / "outside/file").read_bytes() == b"good"
    assert all(Path(os.path.realpath(path)).is_relative_to(inside.resolve()) for path in inside.rglob("*"))
    shutil.rmtree(scratch)


def test_constant_number_of_lstat_calls_per_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    lstat = Path.lstat

    def counted(path: Path) -> os.stat_result:
        nonlocal calls
        calls += 1
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", counted)
    extract_tree([layer(*(member(f"a/b/c/d/{number}", b"") for number in range(200)))], tmp_path / "tree")

    assert calls < 1.1 * 200 + 10


def test_repeated_opaque_whiteouts_walk_a_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Mock(wraps=os.walk)
    monkeypatch.setattr(os, "walk", walk)
    files = [member(f"a/{number}", b"") for number in range(20)]
    extract_tree([layer(*files), layer(*[member("a/.wh..wh..opq")] * 20, member("a/new", b"x"))], tmp_path / "tree")

    assert walk.call_count == 1
    assert [path.name for path in (tmp_path / "tree/a").iterdir()] == ["new"]


def test_extracted_files_can_be_deleted(tmp_path: Path) -> None:
    extract_tree([layer(directory("a", 0), member("a/b", b"1", mode=0), directory("c", 0o4000))], tmp_path)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    extract_tree([layer(member("s", mode=0o4755))], tmp_path)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o755
