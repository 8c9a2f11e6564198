"""Executors of batches of work: local processes, or the workers of a Dask scheduler.

Both are `concurrent.futures.Executor`. Tasks are picklable callables of modules of this program.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from concurrent.futures import CancelledError, Executor, Future, wait
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from msgspec import Struct

from opmkit.core.errors import OpmkitError
from opmkit.core.hints import install_extra
from opmkit.core.workers import WorkerPool, WorkerProcess, serve_requests, spare_cpu_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

MAX_BATCH = 16
"""References of one task. A scheduler needs up to 1 ms for a task, which is little compared to that many images."""
LOOKAHEAD = 64
"""Batches that are submitted ahead of the consumer, which bounds the memory for their results."""
_BATCHES_PER_SLOT = 4
_ATTEMPTS = 3
_MAX_PROCESSES = 64
_CONNECT_SECONDS = 15
_CLOSE_SECONDS = 0.3
_CHECK_SECONDS = 5
_WORKER_SECONDS = 600
"""Seconds without any worker after which a command fails."""
_log = logging.getLogger(__name__)
_PROCESSES = re.compile(r"processes(?::([1-9][0-9]?))?")
_DASK = re.compile(r"dask(\+tls)?://(.+:[0-9]+)")


class ExecutorError(OpmkitError):
    """An executor cannot be used, or has lost its workers."""


class ExecutorLocation(Struct, frozen=True):
    """Place where tasks are run: in ``processes`` local processes, or by the scheduler with an address."""

    text: str
    processes: int = 0
    scheduler: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``processes[:N]``, ``dask://HOST:PORT`` or ``dask+tls://HOST:PORT``; raise ExecutorError."""
        if match := _PROCESSES.fullmatch(text):
            return cls(text, processes=int(match[1] or spare_cpu_count(_MAX_PROCESSES) + 1))
        if match := _DASK.fullmatch(text):
            return cls(text, scheduler=f"{'tls' if match[1] else 'tcp'}://{match[2]}")
        raise ExecutorError(
            f"invalid executor {text!r}", hint="write processes, processes:N, dask://HOST:PORT or dask+tls://HOST:PORT"
        )

    @property
    def is_remote(self) -> bool:
        """Whether workers may run on other machines, with other files."""
        return bool(self.scheduler)

    @property
    def is_encrypted(self) -> bool:
        """Whether the scheduler is reached over TLS."""
        return self.scheduler.startswith("tls:")

    @contextmanager
    def open(self) -> Iterator[TaskPool]:
        """Open the executor; leaving the block cancels its pending tasks.

        Raises:
            ExecutorError: The scheduler cannot be reached, or the library for it is not installed.
        """
        if self.scheduler:
            with _open_client(self) as client:
                slots = sum(client.nthreads().values())
                executor = client.get_executor(pure=False, retries=_ATTEMPTS - 1)
                yield TaskPool(executor, slots, self.text, lambda: _count_workers(client))
            return
        with closing(_ProcessExecutor(self.processes)) as processes:
            yield TaskPool(processes, self.processes, self.text)


class TaskPool(Struct, frozen=True):
    """An executor of tasks.

    Attributes:
        executor: The executor.
        slots: Number of tasks that it runs at the same time, 0 if unknown.
        name: Its name for messages.
        count_workers: Function that returns the number of its workers, which may leave; raises CancelledError
            if the scheduler is gone.
    """

    executor: Executor
    slots: int
    name: str
    count_workers: Callable[[], int] = lambda: 1

    def map(self, task: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T]) -> Generator[R, None, None]:
        """Call ``task`` for batches of items, and yield the results of all batches in their order.

        A batch is run again if its worker ends. Close the generator to cancel the pending batches.

        Raises:
            ExecutorError: A batch has lost several workers.
        """
        size = max(1, min(MAX_BATCH, len(items) // (_BATCHES_PER_SLOT * max(1, self.slots))))
        pending: deque[Future[Sequence[R]]] = deque()
        try:
            for batch in split_batches(items, size):
                pending.append(self.executor.submit(task, batch))
                if len(pending) > LOOKAHEAD:
                    yield from self._result(pending.popleft())
            while pending:
                yield from self._result(pending.popleft())
        finally:
            for future in pending:
                future.cancel()

    def _result(self, future: Future[Sequence[R]]) -> Sequence[R]:
        try:
            self._wait(future)
            return future.result()
        except OpmkitError:
            raise
        except CancelledError as error:
            raise ExecutorError(f"{self.name}: connection lost", hint="run the command again") from error
        except Exception as error:
            hint = "workers need the same release of opmkit, and enough memory: see their logs"
            raise ExecutorError(f"{self.name}: task failed: {type(error).__name__}: {error}", hint=hint) from error

    def _wait(self, future: Future[Any]) -> None:
        """Wait for a result for as long as there are workers, or a new one may come."""
        without_workers = 0
        while not wait([future], _CHECK_SECONDS).done:
            if self.count_workers():
                without_workers = 0
                continue
            if not without_workers:
                _log.warning("%s: no workers; waiting for one", self.name)
            without_workers += _CHECK_SECONDS
            if without_workers >= _WORKER_SECONDS:
                raise ExecutorError(
                    f"{self.name}: no workers for {_WORKER_SECONDS} s", hint="start workers, and run the command again"
                )


def _count_workers(client: Any) -> int:
    if client.status != "running":
        raise CancelledError
    return len(client.nthreads())


def split_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to ``size`` items."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


@contextmanager
def _open_client(location: ExecutorLocation) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError as error:
        raise ExecutorError(f"{location.text}: distributed is not installed", hint=install_extra("dask")) from error
    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # failures are reported as errors
    try:
        _probe(location.scheduler)
        client = Client(location.scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, RuntimeError) as error:
        raise ExecutorError(
            f"{location.text}: connection to the scheduler failed: {error}",
            hint="check its address, and that both sides use TLS or neither does",
        ) from error
    except TypeError as error:  # there is no SSL context
        raise ExecutorError(
            f"{location.text}: connection to the scheduler failed: no certificates configured",
            hint="set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, and the certificate and key of the client",
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_CLOSE_SECONDS)  # type: ignore[no-untyped-call]


def _probe(address: str) -> None:
    """Connect to a scheduler once: a client that fails to waits 30 s more, and prints a traceback when it is deleted.

    Raises:
        OSError: There is no scheduler, or it does not answer.
    """
    import asyncio

    from distributed.comm.core import connect
    from distributed.security import Security

    async def connect_once() -> None:
        arguments = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        async with asyncio.timeout(_CONNECT_SECONDS):
            comm = await connect(address, timeout=_CONNECT_SECONDS, **arguments)  # type: ignore[no-untyped-call]
        comm.abort()

    try:
        asyncio.run(connect_once())
    except TimeoutError as error:
        raise OSError(f"no answer within {_CONNECT_SECONDS} s") from error
    except MemoryError as error:  # the answer is read as the size of a message
        raise OSError("not a scheduler of Dask") from error


class _ProcessExecutor(WorkerPool):
    """Runs calls in processes of this program, which end with it. A call whose process ends is run again."""

    def __init__(self, count: int) -> None:
        super().__init__(count, "processes")
        self._idle = [WorkerProcess(__name__) for _ in range(count)]

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a call, whose function and arguments must be picklable."""
        return super().submit(self._call, function, *args, **kwargs)

    def close(self) -> None:
        """Cancel pending calls, and end the processes."""
        self.shutdown(wait=True, cancel_futures=True)
        for process in self._idle:
            process.stop()

    def _call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_ATTEMPTS):
            process = self._idle.pop()
            outcome = None
            try:
                outcome = process.request((function, args, kwargs))
            finally:
                if outcome is None:
                    process.stop()
                    process = WorkerProcess(__name__)
                self._idle.append(process)
            if outcome is not None:
                value, error = outcome
                if error is not None:
                    raise error
                result: T = value
                return result
        raise ExecutorError(f"a task ended {_ATTEMPTS} worker processes", hint="use fewer processes to save memory")


def _handle(request: tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]) -> object:
    """Return the result of a call and None, or None and its error."""
    function, args, kwargs = request
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - raised again by the parent process
        return None, error


if __name__ == "__main__":
    serve_requests(_handle)
