"""On-disk cache of results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from opmkit.core.cache import ResultCache, code_digest, files_digest, tree_digest

if TYPE_CHECKING:
    from pathlib import Path


def test_results_depend_on_content_and_key(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path, "demo", ["a", "b"])
    cache.put("sha256:1", b"result")
    assert cache.get("sha256:1") == b"result"
    assert cache.get("sha256:2") is None
    for parts in (["ab"], ["b", "a"], ["a"], []):
        assert ResultCache.open(tmp_path, "demo", parts).get("sha256:1") is None


def test_reading_updates_the_modification_time(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path, "demo", [])
    cache.put("sha256:1", b"result")
    (path,) = tmp_path.rglob("*.json")
    os.utime(path, (0, 0))
    assert cache.get("sha256:1")
    assert path.stat().st_mtime > 0


def test_write_errors_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = ResultCache.open(tmp_path / "file" / "below", "demo", [])
    cache.put("sha256:1", b"result")
    assert cache.get("sha256:1") is None


def test_results_of_other_content_or_damaged_ones_are_ignored(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path, "demo", [])
    cache.put("sha256:1", b"result")
    (first,) = tmp_path.rglob("*.json")
    cache.put("sha256:2", b"other")
    (second,) = set(tmp_path.rglob("*.json")) - {first}
    stored = second.read_bytes()
    for content in (first.read_bytes(), b"", stored[:-1], stored.replace(b"other", b"Other")):
        second.write_bytes(content)
        assert cache.get("sha256:2") is None
        assert not cache.contains("sha256:2")
    cache.put("sha256:2", b"other")
    assert cache.get("sha256:2") == b"other"


@pytest.mark.parametrize("shared", [".", "results", "results/demo", "results/demo/*"])
def test_a_cache_that_others_can_write_is_neither_read_nor_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: str
) -> None:
    ResultCache.open(tmp_path, "demo", []).put("sha256:1", b"result")
    path = next(tmp_path.glob(shared)) if shared != "." else tmp_path
    path.chmod(0o777)
    cache = ResultCache.open(tmp_path, "demo", [])
    assert cache.get("sha256:1") is None
    cache.put("sha256:1", b"new")
    cache.put("sha256:2", b"new")
    assert [file.read_bytes().endswith(b"result") for file in tmp_path.rglob("*.json")] == [True]
    assert [record.message for record in caplog.records] == [
        f"{path}: not trusted: other users can write to it; continuing without the store"
    ]


def test_a_result_that_others_can_write_is_replaced(tmp_path: Path) -> None:
    cache = ResultCache.open(tmp_path, "demo", [])
    cache.put("sha256:1", b"result")
    (path,) = tmp_path.rglob("*.json")
    path.chmod(0o666)
    assert cache.get("sha256:1") is None
    cache.put("sha256:1", b"new")
    assert cache.get("sha256:1") == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_code_digest_has_the_records_of_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is built again can have other content under the same version."""
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    monkeypatch.setattr("opmkit.core.cache.installed_distributions", lambda: (str(metadata),))
    digests = set()
    for record in ("acme.py,sha256=a,1", "acme.py,sha256=b,1"):
        (metadata / "RECORD").write_text(record)
        digests.add(code_digest("opmkit.bundle"))
    assert len(digests) == 2


def test_code_digest() -> None:
    assert code_digest("opmkit.bundle") == code_digest("opmkit.bundle") != code_digest("opmkit.index.fbc")


def test_files_digest_depends_on_names_and_contents() -> None:
    digests = {files_digest(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {})}
    assert len(digests) == 4


def test_tree_digest_depends_on_names_contents_and_suffixes(tmp_path: Path) -> None:
    def digest(*suffixes: str) -> str:
        return tree_digest([str(tmp_path / "tree"), str(tmp_path / "gone")], suffixes or ("",))

    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "up").symlink_to("..")
    (tmp_path / "tree" / "a.py").write_bytes(b"1")
    digests = [digest()]
    (tmp_path / "tree" / "a.py").write_bytes(b"2")
    digests.append(digest())
    (tmp_path / "tree" / "a.py").rename(tmp_path / "tree" / "b.py")
    digests.append(digest())
    python = digest(".py")
    (tmp_path / "tree" / "sub" / "data").write_bytes(b"")
    digests.append(digest())
    (tmp_path / "tree" / "__pycache__").mkdir()
    (tmp_path / "tree" / "__pycache__" / "a.pyc").write_bytes(b"")
    assert len(set(digests)) == 4
    assert digest() == digests[-1]
    assert digest(".py") == python
