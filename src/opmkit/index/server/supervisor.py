"""The processes of a server: they are forked from one that does nothing but watch over them.

Each answers calls for itself. None is started anew: where one dies the server ends with an error, and who runs it (a
cluster, mostly) starts all of it again.
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
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from opmkit.imagetools import interrupts
from opmkit.imagetools.errors import OpmkitError
from opmkit.index.server.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.index.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_STOP = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_MARGIN = 5
"""Seconds that a process may take to end beyond the time that calls in progress have."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a process of the server shares with the one that watches over it.

    ``end`` is a file descriptor that reaches its end when the process is to stop, also where the other one was killed.
    One of the processes is the ``first``.
    """

    end: int
    first: bool
    _ready: int

    def ready(self) -> None:
        """Tell that calls are answered from now on."""
        os.write(self._ready, b"\n")


def run_processes(work: Callable[[WorkerContext], None], settings: ServerSettings, ready: Callable[[], None]) -> None:
    """Run ``work`` in as many processes as the settings say, until a signal or the timeout; then let them stop.

    This process must have no threads. ``ready`` is called once all of them are. Raises ServerError where one of them
    ends by itself.
    """
    with _signals() as signals:
        watch = Supervisor(signals, settings.processes)
        try:
            watch.start(work)
            reason = watch.wait(settings.timeout, ready)
            _log.info(reason)
        finally:
            watch.stop(settings.grace + _MARGIN)


class Supervisor:
    """The parent process of the workers."""

    def __init__(self, signals: int, count: int) -> None:
        """Supervise ``count`` workers; numbers of signals are read from the descriptor ``signals``."""
        self._signals = signals
        self._count = count
        self._running: set[int] = set()
        self._end, self._lifeline = os.pipe()
        self._ready, self._told = os.pipe()

    def start(self, work: Callable[[WorkerContext], None]) -> None:
        """Fork the workers."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        gc.freeze()  # what is there now stays shared: a collection would write to all of it
        for number in range(self._count):
            process = os.fork()
            if not process:
                os.close(self._lifeline)
                _work(work, WorkerContext(self._end, not number, self._told))
            self._running.add(process)

    def wait(self, timeout: float | None, ready: Callable[[], None]) -> str:
        """Wait for a reason to stop, and give it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        waiting = self._count
        while True:
            left = None if deadline is None else max(0, deadline - time.monotonic())
            found, _, _ = select.select([self._signals, self._ready], [], [], left)
            if not found:
                return "timeout expired, shutting down..."
            if self._ready in found:
                waiting -= len(os.read(self._ready, waiting or 1))
                if not waiting:
                    ready()
            if self._signals in found:
                if _STOP & set(os.read(self._signals, 64)):
                    return "shutting down..."
                for process, status in self._ended():
                    raise ServerError(
                        f"process {process} of the server ended by itself ({_told_status(status)})",
                        hint="Look for its error above; the memory limit may be too low.",
                    )

    def stop(self, seconds: float) -> None:
        """Let the processes end, within ``seconds``, or at once at another signal."""
        os.close(self._lifeline)
        deadline = time.monotonic() + seconds
        while self._running and (left := deadline - time.monotonic()) > 0:
            list(self._ended())
            found, _, _ = select.select([self._signals], [], [], min(left, 1)) if self._running else ([], [], [])
            if found and _STOP & set(os.read(self._signals, 64)):
                break
        for process in self._running:
            _log.warning("a process did not stop in time", extra={"fields": {"process": process}})
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for descriptor in (self._end, self._ready, self._told):
            os.close(descriptor)

    def _ended(self) -> Iterator[tuple[int, int]]:
        for process in sorted(self._running):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                self._running.discard(process)
                yield process, os.waitstatus_to_exitcode(status)


def _work(work: Callable[[WorkerContext], None], life: WorkerContext) -> NoReturn:
    """Be one of the processes; what the other one holds open or has to tidy up is not its business."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for name in _STOP:  # a terminal, or a service manager, sends them to every process
            signal.signal(name, signal.SIG_IGN)
        work(life)
        status = 0
    except OpmkitError as error:
        _log.error(error.message, extra={"fields": {"advice": error.hint}})
    except Exception:  # noqa: BLE001 - nobody is behind it
        _log.exception("a process of the server failed")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)


@contextmanager
def _signals() -> Iterator[int]:
    """A file descriptor from which the numbers of signals can be read, those to stop and that of a child's end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
    names = {*_STOP, signal.SIGCHLD} - ({signal.SIGHUP} if hangup_ignored else set())
    interrupts.stop_watching()
    before = {name: signal.signal(name, lambda *_: None) for name in names}
    descriptor = signal.set_wakeup_fd(writing)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(descriptor)
        for name, handler in before.items():
            signal.signal(name, handler)
        os.close(reading)
        os.close(writing)


def _told_status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
