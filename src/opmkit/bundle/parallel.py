"""Waiting for many things at once, and taking them in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from opmkit.imagetools.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")
WORKERS = 8
_AHEAD = 2 * WORKERS  # bounds the memory: what is done waits here until it is asked for


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> Generator[tuple[T, Future[R]], None, None]:
    """Call the function for each item in threads, some ahead of the one that is asked for; the results in order."""
    pool = WorkerPool(WORKERS, "ahead")
    waiting: deque[tuple[T, Future[R]]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(function, item)))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
