"""On-disk cache of results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opmkit.core.cache import ResultCache, code_digest, files_digest

if TYPE_CHECKING:
    from pathlib import Path


def test_results_depend_on_content_and_key(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path / "results", ["a", "b"])
    cache.put("sha256:1", b"result")
    assert cache.get("sha256:1") == b"result"
    assert cache.get("sha256:2") is None
    for parts in (["ab"], ["b", "a"], ["a"], []):
        assert ResultCache.open(tmp_path / "results", parts).get("sha256:1") is None


def test_reading_updates_the_modification_time(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path, [])
    cache.put("sha256:1", b"result")
    (path,) = tmp_path.rglob("*.json")
    os.utime(path, (0, 0))
    assert cache.get("sha256:1")
    assert path.stat().st_mtime > 0


def test_write_errors_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = ResultCache.open(tmp_path / "file" / "below", [])
    cache.put("sha256:1", b"result")
    assert cache.get("sha256:1") is None


def test_code_digest() -> None:
    assert code_digest("opmkit.bundle") == code_digest("opmkit.bundle") != code_digest("opmkit.index.fbc")


def test_files_digest_depends_on_names_and_contents() -> None:
    digests = {files_digest(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {})}
    assert len(digests) == 4
