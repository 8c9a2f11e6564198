"""Threads that wait for the network, and that a signal does not have to wait for."""

from __future__ import annotations

import concurrent.futures
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from opmkit.imagetools import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class WorkerPool(ThreadPoolExecutor):
    """A pool of threads that shuts down in bounded time after a signal."""

    def __init__(self, workers: int, name: str) -> None:
        """Set up for ``workers`` threads, named after ``name``."""
        super().__init__(workers, thread_name_prefix=name)
        self._unfinished: set[Future[Any]] = set()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread."""
        future = super().submit(function, *args, **kwargs)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the threads; after a signal drop what they have not begun, and wait a moment only."""
        if not interrupts.received():
            super().shutdown(wait, cancel_futures=cancel_futures)
            return
        super().shutdown(wait=False, cancel_futures=True)
        concurrent.futures.wait(tuple(self._unfinished), interrupts.time_left())
