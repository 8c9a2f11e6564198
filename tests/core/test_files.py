"""Writes of several files, links, and errors of the operating system."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from opmkit.core.errors import DiskError
from opmkit.core.files import (
    disk_errors,
    make_output_directory,
    read_limited,
    refuse_links,
    resolve_below,
    resolve_named,
    write_file,
    write_files,
    write_trees,
)
from tests.kit.template_repository import tree


def test_disk_errors(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="Permission denied") as caught, disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied", str(tmp_path))
    assert "OPM_STORE" in str(caught.value.hint)
    with pytest.raises(OSError, match="no errno"), disk_errors(tmp_path):
        raise OSError("no errno")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(DiskError, match="invalid path"), disk_errors(Path(name)):
        read_limited(Path(name))


def test_files_are_restored_if_one_cannot_be_replaced(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (second / "b" / "taken").mkdir(parents=True)
    first.mkdir()
    (first / "a").write_text("old")
    (first / "a").chmod(0o600)
    before = tree(tmp_path)
    trees: dict[Path, dict[str, bytes | Path]] = {first: {"a": b"new", "new/c": b"new"}, second: {"b": b"new"}}
    with pytest.raises(DiskError, match=r"second/b: Is a directory"):
        write_trees(trees)
    assert tree(tmp_path) == before
    assert not (first / "new").exists()
    (second / "b" / "taken").rmdir()
    (second / "b").rmdir()
    write_trees(trees)
    assert tree(tmp_path) == {"first/a": b"new", "first/new/c": b"new", "second/b": b"new"}
    assert (first / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_files_are_restored_if_a_move_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    replace = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if Path(target).name == "z":
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((DiskError, KeyboardInterrupt)):
        write_files(tmp_path, {"a": b"new", "link": b"new", "new/b": b"new", "z": b"new"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]
    assert ((tmp_path / "a").read_text(), (tmp_path / "link").readlink()) == ("old", Path("a"))


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    killed, running = tmp_path / ".opm-a.part", tmp_path / ".opm-b.part"
    killed.touch()
    with running.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_file(tmp_path / "file", b"1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [running.name, "file"]


def test_links_that_lead_out_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "real").mkdir(parents=True)
    outside.mkdir()
    (root / "inner").symlink_to("real")
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    monkeypatch.chdir(root)
    assert resolve_below(root / "inner" / "a", root) == root / "real" / "a"
    assert resolve_named(Path("inner/a")) == root / "real" / "a"
    assert resolve_named(outside / "a") == outside / "a"
    write_files(root, {"inner/a": b"1"})
    write_file(Path("inner/b"), b"1")
    refuse_links(root, root / "real" / "a")
    for path in (root / "inner" / "a", root / "file"):
        with pytest.raises(DiskError, match="refusing to follow a symbolic link"):
            refuse_links(root, path)
    for attempt in (
        lambda: resolve_below(root / "out" / "a", root),
        lambda: resolve_named(Path("out/a")),
        lambda: resolve_named(Path("file")),
        lambda: resolve_named(root / "real" / ".." / "file"),
        lambda: write_files(root, {"out/a": b"1"}),
        lambda: write_file(Path("out/a"), b"1"),
        lambda: write_files(Path("out"), {"a": b"1"}),
        lambda: write_files(root / "out" / "new", {"a": b"1"}),
        lambda: make_output_directory(Path("out/new")),
    ):
        with pytest.raises(DiskError, match="refusing to follow a symbolic link that leads out of"):
            attempt()
    assert list(outside.iterdir()) == []
    write_files(outside, {"a": b"1"})  # named, not by a link


def test_files_of_a_checkout_are_regular(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "file").write_bytes(b"a")
    assert read_limited(tmp_path / "file", regular=True) == b"a"
    with pytest.raises(DiskError, match="link: not a regular file"):
        read_limited(tmp_path / "link", regular=True)
