"""Ordered concurrent map with bounded look-ahead."""

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
LOOKAHEAD = 2 * WORKERS
"""Maximum number of calls that are started ahead of the consumer, which bounds the memory for their results."""


def ordered_parallel_map(
    function: Callable[[T], R], items: Iterable[T], *, workers: int = WORKERS, lookahead: int = LOOKAHEAD
) -> Generator[tuple[T, Future[R]], None, None]:
    """Call a function for each item in a thread pool, and yield items and results in the order of the items.

    Close the generator to cancel the pending calls and wait for the running ones.
    """
    pool = WorkerPool(workers, "map")
    pending: deque[tuple[T, Future[R]]] = deque()
    try:
        for item in items:
            pending.append((item, pool.submit(function, item)))
            if len(pending) > lookahead:
                yield pending.popleft()
        while pending:
            yield pending.popleft()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
