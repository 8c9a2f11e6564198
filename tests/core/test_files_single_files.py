"""Atomic writes."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from opmkit.core.files import is_partial, write_file

if TYPE_CHECKING:
    from pathlib import Path


def test_concurrent_writers_leave_one_complete_file(tmp_path: Path) -> None:
    path, barrier = tmp_path / "metadata" / "annotations.yaml", Barrier(8)
    contents = [bytes([65 + number]) * 100_000 for number in range(8)]

    def write(content: bytes) -> None:
        barrier.wait(30)
        for _ in range(20):
            write_file(path, content, mode=0o600)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, contents))
    assert path.read_bytes() in contents
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "directory" / "content").mkdir(parents=True)
    with pytest.raises(OSError):
        write_file(tmp_path / "directory", "content")
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]


def test_incomplete_files_have_names_of_their_own() -> None:
    assert is_partial(".opm-abc.part")
    assert not any(map(is_partial, (".opm-abc", "abc.part", "csv.yaml")))
