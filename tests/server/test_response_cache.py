"""The response cache: each record is written once by all processes, and the file ends with the server."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import pytest

from opmkit.server.response_cache import BUNDLE_LIST, ResponseCache, content_record, csv_record, prefix_messages
from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cache() -> Iterator[ResponseCache]:
    with ResponseCache(10) as created:
        yield created


def test_record_numbers_are_unique() -> None:
    numbers = [BUNDLE_LIST, *(number(bundle) for bundle in range(1, 11) for number in (content_record, csv_record))]
    assert sorted(numbers) == list(range(21))


def test_record_is_written_once(cache: ResponseCache) -> None:
    assert cache.find(3) is None
    span = cache.get_or_write(3, lambda: [b"one", b"two"])
    assert cache.read(span) == b"onetwo"
    assert cache.get_or_write(3, lambda: pytest.fail("written again")) == cache.find(3) == span


def test_empty_record(cache: ResponseCache) -> None:
    span = cache.get_or_write(BUNDLE_LIST, lambda: prefix_messages([]))
    assert list(cache.read_messages(span)) == []
    assert cache.get_or_write(BUNDLE_LIST, lambda: pytest.fail("written again")) == span


@pytest.mark.parametrize("sizes", [(0, 1, 2), (32_764, 32_768, 5), (100_000, 0, 100_000), (3,) * 30_000, (1 << 21, 7)])
def test_messages_are_read_as_written(cache: ResponseCache, sizes: tuple[int, ...]) -> None:
    messages = [os.urandom(size) for size in sizes]
    assert list(cache.read_messages(cache.get_or_write(BUNDLE_LIST, lambda: prefix_messages(messages)))) == messages


def test_failure_leaves_the_file_unchanged(cache: ResponseCache) -> None:
    def failing() -> Iterator[bytes]:
        yield b"x" * (3 << 20)
        raise ValueError("no more")

    before = os.fstat(cache._descriptor).st_size
    with pytest.raises(ValueError, match="no more"):
        cache.get_or_write(1, failing)
    assert os.fstat(cache._descriptor).st_size == before
    assert cache.read(cache.get_or_write(1, lambda: [b"now"])) == b"now"


def test_threads_write_a_record_once(cache: ResponseCache) -> None:
    writers = []

    def produce() -> list[bytes]:
        writers.append(threading.get_ident())
        return [b"content"]

    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(cache.read(cache.get_or_write(5, produce)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"content"] * 16
    assert len(writers) == 1


def test_processes_share_records(cache: ResponseCache, tmp_path: Path) -> None:
    """Each of four processes writes the records that are missing, and leaves a file for each."""
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            _write_all(cache, tmp_path, number)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir()) == list(range(20))


def _write_all(cache: ResponseCache, directory: Path, number: int) -> NoReturn:
    """Run in a process with this number, which succeeds if all records are as expected."""

    def produce(record: int) -> Iterator[bytes]:
        (directory / f"{record}-{number}").touch()
        yield b"%d" % record * 1000

    status = 1
    try:
        for record in range(20):
            span = cache.get_or_write(record, partial(produce, record))
            assert cache.read(span) == b"%d" % record * 1000
        status = 0
    finally:
        os._exit(status)


def test_file_is_unnamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ResponseCache(1) as cache:
        cache.get_or_write(1, lambda: [b"x"])
        assert list(tmp_path.iterdir()) == []


def test_file_is_in_memory_if_the_disk_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with ResponseCache(1) as cache:
        assert cache.read(cache.get_or_write(1, lambda: [b"x"])) == b"x"


def test_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(ServerError, match=r"creating the response cache failed: No space left") as caught:
        ResponseCache(1)
    assert "TMPDIR" in str(caught.value.hint)
