"""Handling of SIGINT, SIGTERM and SIGHUP.

A signal raises `Interrupted` in the main thread, so that temporary files are removed while the stack unwinds, and
cancels the I/O of worker threads. A watcher thread ends the process if unwinding takes too long, for example in a call
of C code that no signal interrupts.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from weakref import WeakKeyDictionary

from opmkit.core.escape import escape_line

TYPE_CHECKING = False  # importing typing would take longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WORKER_GRACE_PERIOD = 0.4
"""Seconds after a signal in which worker threads may unwind."""
EXIT_DEADLINE = 0.8
"""Seconds after a signal at which the process ends in any case."""
_POLL_INTERVAL = 0.02
_STOP_WATCHING = b"\0"
_IMPORTLIB = "<frozen importlib._bootstrap>"


class Interrupted(KeyboardInterrupt):
    """A signal interrupted the command. Not an error of the interrupted operation."""


class _State:
    """The signal that this process received, and the progress of its handling."""

    def __init__(self) -> None:
        self.received = 0
        self.deadline = 0.0
        self.in_command = False
        """Whether a command runs, so that there is a stack to unwind."""
        self.raised = False
        """Whether the main thread unwinds."""
        self.cancelled = threading.Event()
        self.reported = threading.Lock()
        self.updated: list[str] = []
        self.pipe: tuple[int, int] | None = None

    def record(self, number: int) -> None:
        if not self.received:
            self.deadline = time.monotonic() + EXIT_DEADLINE
            self.received = number


_state = _State()
_cancel_callbacks: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()
_callbacks_lock = threading.Lock()


def install() -> None:
    """Install handlers for the signals that are not ignored. Until `begin_command`, a signal exits immediately."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    read_end, write_end = _state.pipe = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read_end,), name="signals", daemon=True).start()
    sys.unraisablehook = _unraisable


def begin_command() -> None:
    """Let signals raise `Interrupted` in the main thread from now on."""
    _state.in_command = True


def end_command() -> None:
    """Let signals exit immediately from now on; after a signal, ignore further ones."""
    _state.in_command = False
    if _state.received:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def stop_watching() -> None:
    """Stop the watcher thread, for a caller that forks and handles signals itself."""
    if _state.pipe:
        os.write(_state.pipe[1], _STOP_WATCHING)
        for thread in threading.enumerate():
            if thread.name == "signals":
                thread.join()
        signal.set_wakeup_fd(-1)
        for descriptor in _state.pipe:
            os.close(descriptor)
        _state.pipe = None


def restore_defaults() -> None:
    """Restore the default handlers, for a forked process whose parent reports the signal."""
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_DFL)


def received_signal() -> int:
    """Return the number of the first signal received, 0 if none."""
    return _state.received


def check() -> None:
    """Raise `Interrupted` after a signal. Worker threads call this, since signals raise in the main thread only."""
    if _state.received:
        raise Interrupted


def sleep(seconds: float) -> None:
    """Sleep in any thread; raise `Interrupted` after a signal."""
    _state.cancelled.wait(seconds)
    check()


def grace_period_left() -> float:
    """Return the seconds that worker threads have left to unwind after a signal."""
    return max(0.0, _state.deadline - (EXIT_DEADLINE - WORKER_GRACE_PERIOD) - time.monotonic())


def cancel_on_signal(target: T, cancel: Callable[[T], object]) -> T:
    """Register ``cancel(target)`` to be called from another thread on a signal, for as long as ``target`` exists.

    Raises:
        Interrupted: A signal was received before.
    """
    with _callbacks_lock:
        _cancel_callbacks[target] = cancel
    if _state.received:
        cancel(target)
        raise Interrupted
    return target


def record_update(name: str) -> None:
    """List ``name`` as already updated in the report of a later signal, if a command runs."""
    if _state.in_command:
        _state.updated.append(name)


def report(number: int) -> int:
    """Print an error line for the signal, once, and return the exit status."""
    if _state.reported.acquire(blocking=False):
        updated = f"; already updated: {', '.join(_state.updated)}" if _state.updated else ""
        line = escape_line(f"Error: interrupted by {signal.Signals(number).name}{updated}")
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"{line}\n".encode())
    return 128 + number


def _handle(number: int, frame: FrameType | None) -> None:
    _state.record(number)
    if not _state.in_command:
        _exit(number)
    if not _state.raised and not _is_importing(frame):  # the watcher thread sends the signal again
        _state.raised = True
        raise Interrupted


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported. Extensions such as orjson crash if an exception interrupts that."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTLIB:
            return True
        frame = frame.f_back
    return False


def _exit(number: int) -> NoReturn:
    os._exit(report(_state.received or number))


def _watch(read_end: int) -> None:
    while True:
        numbers = os.read(read_end, 64)
        number = next((number for number in numbers if number in SIGNALS), 0)
        if number:
            break
        if _STOP_WATCHING in numbers:
            return
    _state.record(number)
    _state.cancelled.set()
    with _callbacks_lock:
        callbacks = list(_cancel_callbacks.items())
    for target, cancel in callbacks:
        try:
            cancel(target)
        except Exception:  # noqa: BLE001, S112 - the other callbacks and the deadline still apply
            continue
    while time.monotonic() < _state.deadline:
        time.sleep(_POLL_INTERVAL)
        if _state.in_command and not _state.raised:
            signal.pthread_kill(threading.main_thread().ident or 0, number)
    _exit(number)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Have `Interrupted` raised again if a destructor swallowed it."""
    if issubclass(unraisable.exc_type, Interrupted):
        _state.raised = False
    else:
        sys.__unraisablehook__(unraisable)
