"""Archives that several threads write, and that later processes continue."""

from __future__ import annotations

import fcntl
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.imagetools.archive import growing
from opmkit.imagetools.archive.growing import GrowingArchive
from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.spec import Descriptor, sha256_digest
from tests.kit.content import noise

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = [noise(size, seed) for seed, size in enumerate((1, 511, 512, 513, 70_000))]


def described(content: bytes) -> Descriptor:
    return Descriptor("application/octet-stream", sha256_digest(content), len(content))


def add(archive: GrowingArchive, content: bytes) -> None:
    archive.add(described(content), io.BytesIO(content))


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]


def test_blobs_are_written_concurrently(tmp_path: Path) -> None:
    archive = GrowingArchive(tmp_path / "a.tar")
    blobs = [noise(10_000 + seed, seed) for seed in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: add(archive, content), blobs))
    archive.add_bytes(b"{}")
    archive.add_bytes(b"{}")
    archive.finish({"index.json": b"[]"})
    expected = {f"blobs/{sha256_digest(content).replace(':', '/')}": content for content in [*blobs, b"{}"]}
    assert members(tmp_path / "a.tar") == {**expected, "index.json": b"[]"}


@pytest.mark.parametrize("cut", [0, 1, 700, 69_000])
def test_interrupted_archive_is_continued(tmp_path: Path, cut: int) -> None:
    first = GrowingArchive(tmp_path / "a.tar")
    for content in BLOBS:
        add(first, content)
    first.close()
    with first.partial.open("r+b") as file:
        file.truncate(first.partial.stat().st_size - cut)
    second = GrowingArchive(tmp_path / "a.tar")
    assert [second.find(described(content)) for content in BLOBS] == [True] * 4 + [cut < 140]
    for content in BLOBS:
        if not second.find(described(content)):
            add(second, content)
    second.finish({})
    assert sorted(members(tmp_path / "a.tar").values()) == sorted(BLOBS)


def test_incomplete_blob_is_written_again_in_its_place(tmp_path: Path) -> None:
    first = GrowingArchive(tmp_path / "a.tar")
    with pytest.raises(DigestMismatch):
        first.add(described(BLOBS[4]), io.BytesIO(BLOBS[4][:-1]))
    add(first, BLOBS[0])
    first.close()
    second = GrowingArchive(tmp_path / "a.tar")
    assert (second.find(described(BLOBS[4])), second.find(described(BLOBS[0]))) == (False, True)
    size = second.partial.stat().st_size
    add(second, BLOBS[4])
    assert second.partial.stat().st_size == size
    second.finish({})
    assert set(members(tmp_path / "a.tar").values()) == {BLOBS[0], BLOBS[4]}


def test_blobs_damaged_by_a_power_failure_are_replaced(tmp_path: Path) -> None:
    first = GrowingArchive(tmp_path / "a.tar")
    add(first, BLOBS[4])
    first.add_bytes(BLOBS[3])
    first.close()
    with first.partial.open("r+b") as file:
        for position in (600, 512 + 70_144 + 512 + 5):
            file.seek(position)
            file.write(b"????")
    second = GrowingArchive(tmp_path / "a.tar")
    assert not second.find(described(BLOBS[4]))
    second.add_bytes(BLOBS[3])
    add(second, BLOBS[4])
    second.finish({})
    found = members(tmp_path / "a.tar")
    assert {content for name, content in found.items() if name.startswith("blobs/")} == {BLOBS[3], BLOBS[4]}


def test_complete_archive_exists_until_it_is_replaced(tmp_path: Path) -> None:
    first = GrowingArchive(tmp_path / "a.tar")
    add(first, BLOBS[1])
    first.finish({"index.json": b"1"})
    second = GrowingArchive(tmp_path / "a.tar")
    assert second.find(described(BLOBS[1]))
    add(second, BLOBS[2])
    assert list(members(tmp_path / "a.tar").values()) == [BLOBS[1], b"1"]
    second.finish({"index.json": b"2"})
    assert list(members(tmp_path / "a.tar").values()) == [BLOBS[1], BLOBS[2], b"2"]


def test_one_process_writes_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "LOCK_TIMEOUT_SECONDS", 0.2)
    first = GrowingArchive(tmp_path / "a.tar")
    with pytest.raises(DiskError, match="another process is writing"):
        GrowingArchive(tmp_path / "a.tar")
    first.close()
    GrowingArchive(tmp_path / "a.tar").close()


def test_archive_that_another_process_completes_is_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process renames the file between the time that this one opens and locks it."""
    flock = fcntl.flock
    first = GrowingArchive(tmp_path / "a.tar")
    add(first, BLOBS[2])

    def finish_first(file: object, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        first.finish({})
        flock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", finish_first)
    second = GrowingArchive(tmp_path / "a.tar")
    add(second, BLOBS[3])
    second.finish({})
    assert list(members(tmp_path / "a.tar").values()) == [BLOBS[2], BLOBS[3]]
