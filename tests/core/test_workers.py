"""Thread pools."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import pytest

from opmkit.core.workers import WorkerPool

if TYPE_CHECKING:
    from concurrent.futures import Future


def test_pool_completes_its_calls() -> None:
    with WorkerPool(1, "test") as pool:
        futures = [pool.submit(int, text) for text in ("1", "2", "3")]
    assert [future.result() for future in futures] == [1, 2, 3]


def test_pool_cancels_pending_calls_after_an_exception() -> None:
    started, cancelled = Event(), Event()
    pool = WorkerPool(1, "test")

    def run() -> bool:
        started.set()
        return cancelled.wait(30)

    def fail() -> None:
        with pool:
            futures.extend([pool.submit(run), pool.submit(bool)])
            futures[1].add_done_callback(lambda _: cancelled.set())
            started.wait(30)
            raise KeyError

    futures: list[Future[bool]] = []
    with pytest.raises(KeyError):
        fail()
    assert (futures[0].result(), futures[1].cancelled()) == (True, True)
