"""Prepared answers: made once for all processes, read in pieces, gone with the server."""

from __future__ import annotations

import errno
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import pytest

from opmkit.index.server.errors import ServerError
from opmkit.index.server.length_prefixed import prefix_messages
from opmkit.index.server.response_cache import BUNDLE_LIST, ResponseCache, content_record, csv_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def prepared() -> Iterator[ResponseCache]:
    with ResponseCache(10) as made:
        yield made


def test_every_record_has_a_number_of_its_own() -> None:
    numbers = [BUNDLE_LIST, *(make(bundle) for bundle in range(1, 11) for make in (content_record, csv_record))]
    assert sorted(numbers) == list(range(21))


def test_a_record_is_made_once(prepared: ResponseCache) -> None:
    assert prepared.find(3) is None
    place = prepared.get_or_write(3, lambda: [b"one", b"two"])
    assert prepared.read(place) == b"onetwo"
    assert prepared.get_or_write(3, lambda: pytest.fail("made again")) == prepared.find(3) == place


def test_an_empty_record_is_a_record(prepared: ResponseCache) -> None:
    place = prepared.get_or_write(BUNDLE_LIST, lambda: prefix_messages([]))
    assert list(prepared.read_messages(place)) == []
    assert prepared.get_or_write(BUNDLE_LIST, lambda: pytest.fail("made again")) == place


@pytest.mark.parametrize("sizes", [(0, 1, 2), (32_764, 32_768, 5), (100_000, 0, 100_000), (3,) * 30_000, (1 << 21, 7)])
def test_messages_come_back_as_they_were(prepared: ResponseCache, sizes: tuple[int, ...]) -> None:
    messages = [os.urandom(size) for size in sizes]
    assert (
        list(prepared.read_messages(prepared.get_or_write(BUNDLE_LIST, lambda: prefix_messages(messages)))) == messages
    )


def test_what_fails_leaves_nothing_behind(prepared: ResponseCache) -> None:
    def failing() -> Iterator[bytes]:
        yield b"x" * (3 << 20)
        raise ValueError("no more")

    before = os.fstat(prepared._descriptor).st_size
    with pytest.raises(ValueError, match="no more"):
        prepared.get_or_write(1, failing)
    assert os.fstat(prepared._descriptor).st_size == before
    assert prepared.read(prepared.get_or_write(1, lambda: [b"now"])) == b"now"


def test_threads_that_ask_at_once_make_it_once(prepared: ResponseCache) -> None:
    made = []

    def make() -> list[bytes]:
        made.append(threading.get_ident())
        return [b"content"]

    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(prepared.read(prepared.get_or_write(5, make)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"content"] * 16
    assert len(made) == 1


def test_processes_share_what_they_make(prepared: ResponseCache, tmp_path: Path) -> None:
    """Each of four makes every record that it finds missing, and tells which."""
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            _make_all(prepared, tmp_path, number)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir()) == list(range(20))


def _make_all(prepared: ResponseCache, directory: Path, number: int) -> NoReturn:
    """Be the process of that number, and end without errors if every record is as it should be."""

    def make(record: int) -> Iterator[bytes]:
        (directory / f"{record}-{number}").touch()
        yield b"%d" % record * 1000

    status = 1
    try:
        for record in range(20):
            place = prepared.get_or_write(record, partial(make, record))
            assert prepared.read(place) == b"%d" % record * 1000
        status = 0
    finally:
        os._exit(status)


def test_the_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ResponseCache(1) as made:
        made.get_or_write(1, lambda: [b"x"])
        assert list(tmp_path.iterdir()) == []


def test_a_file_in_memory_replaces_one_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with ResponseCache(1) as made:
        assert made.read(made.get_or_write(1, lambda: [b"x"])) == b"x"


def test_a_full_disk_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(ServerError, match=r"creating the response cache failed: No space left") as caught:
        ResponseCache(1)
    assert "TMPDIR" in str(caught.value.hint)
