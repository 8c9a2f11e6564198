"""Thread pool for network I/O that shuts down quickly after a signal."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import signal
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from opmkit.core import interrupts
from opmkit.core.search_paths import python_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator, Iterable


_GC_THRESHOLD = 20_000
"""Allocations between garbage collections: decoded manifests are many objects, and hardly any of them are in cycles."""
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


def spare_cpu_count(limit: int) -> int:
    """Return the number of CPUs in addition to the one that this process uses, at most ``limit``."""
    return min(len(os.sched_getaffinity(0)) - 1, limit)


class WorkerProcess:
    """A process that runs a module as a program. It starts with the first request and ends with its parent."""

    def __init__(self, module: str) -> None:
        """Prepare a process for ``module``, which calls `serve_requests`."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._usable = bool(sys.executable)

    def request(self, request: object) -> Any:
        """Send a request and return the response, or None if the process cannot be started or has failed."""
        if not self._usable:
            return None
        import pickle  # slow to import: not needed for a few bundles

        try:
            return self._request(request)
        except (OSError, EOFError, pickle.UnpicklingError):
            interrupts.check()
            self._usable = False
            return None

    def _request(self, request: object) -> object:
        import pickle
        import subprocess

        if self._process is None:
            process = subprocess.Popen(
                python_command(self._module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._process = interrupts.cancel_on_signal(process, subprocess.Popen.kill)
        stdout, stdin = self._process.stdout, self._process.stdin
        if stdout is None or stdin is None:
            raise EOFError
        stdin.write(pickle.dumps(request))
        stdin.flush()
        return pickle.load(stdout)  # noqa: S301 - written by our own process

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def serve_requests(handle: Callable[[Any], object]) -> None:
    """Respond to the requests on stdin until it is closed. SIGINT is left to the parent process."""
    import pickle

    gc.set_threshold(_GC_THRESHOLD)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = pickle.load(stdin)  # noqa: S301 - written by our parent process
        except EOFError:
            return
        pickle.dump(handle(request), stdout)
        stdout.flush()


R = TypeVar("R")
WORKERS = 8
LOOKAHEAD = 2 * WORKERS
"""Maximum number of calls that are started ahead of the consumer, which bounds the memory for their results."""


def ordered_parallel_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int = WORKERS,
    lookahead: int = LOOKAHEAD,
) -> Generator[tuple[T, Future[R]], None, None]:
    """Call a function for each item in a thread pool, and yield items and results in the order of the items.

    Close the generator to cancel the pending calls and wait for the running ones.

    Args:
        function: The function.
        items: Its arguments.
        workers: Number of threads.
        lookahead: Maximum number of calls that are started ahead of the consumer.
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
