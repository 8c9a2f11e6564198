"""Writes of templates by several writers."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.templates.edit.write import MAX_ATTEMPTS, change_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_a_change_in_the_meantime_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("a\n")
    seen: list[bytes] = []

    def edit(contents: Mapping[str, bytes]) -> dict[str, bytes]:
        if not seen:
            path.write_text("a\nother\n")
        seen.append(contents["t"])
        return {"t": contents["t"] + b"mine\n"}

    change_files({"t": path}, edit)
    assert seen == [b"a\n", b"a\nother\n"]
    assert path.read_text() == "a\nother\nmine\n"


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("1")

    def edit(contents: Mapping[str, bytes]) -> dict[str, bytes]:
        if contents["b"]:
            raise CatalogError("no")
        second.write_text("other")
        return {"a": b"2", "b": b"2"}

    with pytest.raises(CatalogError, match="no"):
        change_files({"a": first, "b": second}, edit)
    assert (first.read_text(), second.read_text()) == ("1", "other")


def test_endless_changes_end_with_an_error(tmp_path: Path) -> None:
    path, count = tmp_path / "t.yaml", iter(range(100))

    def edit(_: Mapping[str, bytes]) -> dict[str, bytes]:
        path.write_text(str(next(count)))
        return {"t": b"mine"}

    with pytest.raises(CatalogError, match="other programs keep changing it"):
        change_files({"t": path}, edit)
    assert path.read_text() == str(MAX_ATTEMPTS - 1)


def test_concurrent_writers_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"")
    barrier = threading.Barrier(4)

    def write(number: int) -> None:
        barrier.wait()
        for line in range(3):
            change_files({"t": path}, partial(append, f"{number}.{line}\n"))

    def append(line: str, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        return {"t": contents["t"] + line.encode()}

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_text().split()) == sorted(f"{number}.{line}" for number in range(4) for line in range(3))


def test_links_are_followed_and_modes_retained(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "t.yaml", tmp_path / "t.yaml"
    target.write_text("a")
    target.chmod(0o640)
    link.symlink_to(target)
    change_files({"t": link}, lambda _: {"t": b"b"})
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("b", 0o640)
    assert [entry.name for entry in (tmp_path / "real").iterdir()] == ["t.yaml"]


def test_unchanged_files_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("a")
    before = path.stat()
    change_files({"t": path}, dict)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
