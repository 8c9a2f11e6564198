"""Worker processes of a server, and the parent process that supervises them.

Workers are not restarted: if one ends, the server ends with an error, and its container is restarted.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from opmkit.core import interrupts
from opmkit.core.errors import OpmkitError
from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_STOP_MARGIN = 5
"""Seconds that a worker may take to stop in addition to the grace period of calls in progress."""


class WorkerContext(Struct, frozen=True):
    """The connection of a worker to the parent process.

    ``stop_descriptor`` reaches its end when the worker must stop, also if the parent was killed. One worker is the
    ``first``.
    """

    stop_descriptor: int
    first: bool
    _ready_descriptor: int

    def report_ready(self) -> None:
        """Report that calls are answered from now on."""
        os.write(self._ready_descriptor, b"\n")


def run_workers(
    run: Callable[[WorkerContext], None],
    settings: ServerSettings,
    ready: Callable[[], None],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Call ``run`` in as many processes as the settings require, until a signal or the timeout; then stop them.

    This process must have no other threads. ``ready`` is called when all workers have reported to be ready; ``check``
    at first and when a child of this process has ended, and its errors stop the server.

    Raises:
        ServerError: A worker has ended unexpectedly.
    """
    with _signal_descriptor() as signals:
        supervisor = Supervisor(signals, settings.processes)
        try:
            supervisor.start(run)
            reason = supervisor.wait(settings.timeout, ready, check)
            _log.info(reason)
        finally:
            supervisor.stop(settings.grace + _STOP_MARGIN)


class Supervisor:
    """The parent process of the workers."""

    def __init__(self, signals: int, count: int) -> None:
        """Supervise ``count`` workers; the numbers of received signals are read from the descriptor ``signals``."""
        self._signals = signals
        self._count = count
        self._workers: set[int] = set()
        self._stop_reader, self._stop_writer = os.pipe()
        self._ready_reader, self._ready_writer = os.pipe()

    def start(self, run: Callable[[WorkerContext], None]) -> None:
        """Fork the workers."""
        gc.freeze()  # a collection would write to all objects, so that their memory would no longer be shared
        for number in range(self._count):
            context = WorkerContext(self._stop_reader, not number, self._ready_writer)
            self._workers.add(fork_process(partial(self._run, run, context)))

    def _run(self, run: Callable[[WorkerContext], None], context: WorkerContext) -> None:
        os.close(self._stop_writer)
        run(context)

    def wait(self, timeout: float | None, ready: Callable[[], None], check: Callable[[], None]) -> str:
        """Wait for a reason to stop, and return its description."""
        deadline = None if timeout is None else time.monotonic() + timeout
        waiting = self._count
        check()
        while True:
            remaining = None if deadline is None else max(0, deadline - time.monotonic())
            readable, _, _ = select.select([self._signals, self._ready_reader], [], [], remaining)
            if not readable:
                return "timeout expired, shutting down..."
            if self._ready_reader in readable:
                waiting -= len(os.read(self._ready_reader, waiting or 1))
                if not waiting:
                    ready()
            if self._signals in readable:
                if _STOP_SIGNALS & set(os.read(self._signals, 64)):
                    return "shutting down..."
                for process, status in self._reap():
                    raise ended_process(process, status)
                check()

    def stop(self, seconds: float) -> None:
        """Stop the workers gracefully within ``seconds``, or kill them at another signal."""
        os.close(self._stop_writer)
        deadline = time.monotonic() + seconds
        while self._workers and (remaining := deadline - time.monotonic()) > 0:
            list(self._reap())
            readable, _, _ = (
                select.select([self._signals], [], [], min(remaining, 1)) if self._workers else ([], [], [])
            )
            if readable and _STOP_SIGNALS & set(os.read(self._signals, 64)):
                break
        for process in self._workers:
            _log.warning("a process did not stop in time", extra={"fields": {"process": process}})
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for descriptor in (self._stop_reader, self._ready_reader, self._ready_writer):
            os.close(descriptor)

    def _reap(self) -> Iterator[tuple[int, int]]:
        """Yield the workers that have ended, with their exit codes."""
        for process in sorted(self._workers):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self._workers.discard(process)
                yield process, os.waitstatus_to_exitcode(status)


def fork_process(run: Callable[[], None]) -> int:
    """Call ``run`` in a forked process, which logs its errors and leaves signals to this one; return its id."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    process = os.fork()
    if not process:
        _run_forked(run)
    return process


def _run_forked(run: Callable[[], None]) -> NoReturn:
    """Run a process, and exit without the cleanup of the parent process."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _STOP_SIGNALS:  # terminals and service managers send them to every process
            signal.signal(number, signal.SIG_IGN)
        run()
        status = 0
    except OpmkitError as error:
        _log.error(error.message, extra={"fields": {"hint": error.hint}})
    except Exception:  # noqa: BLE001 - the process ends here
        _log.exception("a process of the server failed")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)


@contextmanager
def _signal_descriptor() -> Iterator[int]:
    """Yield a descriptor from which the numbers of received signals are read: those to stop, and SIGCHLD."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
    numbers = {*_STOP_SIGNALS, signal.SIGCHLD} - ({signal.SIGHUP} if hangup_ignored else set())
    interrupts.stop_watching()
    previous_handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
    previous_descriptor = signal.set_wakeup_fd(writer)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(previous_descriptor)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def ended_process(process: int, status: int) -> ServerError:
    """Return the error of a process that has ended unexpectedly with an exit code, negative for a signal."""
    description = f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
    return ServerError(
        f"process {process} of the server ended by itself ({description})",
        hint="look for its error above; the memory limit may be too low",
    )
