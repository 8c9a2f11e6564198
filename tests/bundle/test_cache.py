"""Results are kept by what they depend on; what can't be read or written is not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opmkit.bundle.cache import ResultCache, code_digest

if TYPE_CHECKING:
    from pathlib import Path


def test_a_result_is_found_by_its_content_and_all_that_it_depends_on(tmp_path: Path) -> None:
    kept = ResultCache.open(tmp_path / "kept", ["a", "b"])
    kept.put("sha256:1", b"result")
    assert kept.get("sha256:1") == b"result"
    assert kept.get("sha256:2") is None
    for parts in (["ab"], ["b", "a"], ["a"], []):
        assert ResultCache.open(tmp_path / "kept", parts).get("sha256:1") is None


def test_a_result_in_use_is_not_old(tmp_path: Path) -> None:
    kept = ResultCache.open(tmp_path, [])
    kept.put("sha256:1", b"result")
    (path,) = tmp_path.rglob("*.json")
    os.utime(path, (0, 0))
    assert kept.get("sha256:1")
    assert path.stat().st_mtime > 0


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = ResultCache.open(tmp_path / "file" / "below", [])
    kept.put("sha256:1", b"result")
    assert kept.get("sha256:1") is None


def test_code_of_other_packages_has_another_digest() -> None:
    assert code_digest("opmkit.bundle") == code_digest("opmkit.bundle") != code_digest("opmkit.index.fbc")
