"""Thread pool for network I/O that shuts down quickly after a signal."""

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
    """A thread pool whose shutdown takes bounded time after a signal.

    As a context manager it waits for the calls; after an exception it cancels those that have not started.
    """

    def __init__(self, workers: int, name: str) -> None:
        """Create a pool of up to ``workers`` threads, with ``name`` as the prefix of their names."""
        super().__init__(workers, thread_name_prefix=name)
        self._unfinished: set[Future[Any]] = set()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a function call."""
        future = super().submit(function, *args, **kwargs)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the threads; after a signal cancel pending calls and wait for the grace period at most."""
        if not interrupts.received_signal():
            super().shutdown(wait, cancel_futures=cancel_futures)
            return
        super().shutdown(wait=False, cancel_futures=True)
        concurrent.futures.wait(tuple(self._unfinished), interrupts.grace_period_left())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the calls, or for those that have started."""
        self.shutdown(wait=True, cancel_futures=kind is not None)
