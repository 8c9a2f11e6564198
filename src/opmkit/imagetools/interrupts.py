"""Signals that end a command: the main thread unwinds, worker threads are cancelled, and a time limit holds.

SIGINT, SIGTERM and SIGHUP raise `Interrupted` in the main thread, so that temporary files are removed on the way out.
What other threads wait for is closed at the same time. A thread that watches the signals ends the process where
unwinding takes too long, for example in a call of C code that no signal interrupts.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from weakref import WeakKeyDictionary

from opmkit.imagetools.escape import escape_controls

TYPE_CHECKING = False  # typing takes longer to load than all else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 0.4
"""Seconds that worker threads get to unwind."""
LIMIT = 0.8
"""Seconds after a signal at which the process ends in any case."""
_STEP = 0.02
_STOP_WATCHING = b"\0"
_IMPORTLIB = "<frozen importlib._bootstrap>"


class Interrupted(KeyboardInterrupt):
    """A signal ended the command; not an error of the operation that it interrupts."""


class _State:
    """The signal of this process, and how far it was handled."""

    def __init__(self) -> None:
        self.received = 0
        self.deadline = 0.0
        self.raised = False
        """Whether the main thread unwinds."""
        self.unwinds = False
        """Whether there is anything to unwind: a command runs."""
        self.cancelled = threading.Event()
        self.reported = threading.Lock()
        self.updated: list[str] = []
        self.pipe: tuple[int, int] | None = None

    def note(self, number: int) -> None:
        if not self.received:
            self.deadline = time.monotonic() + LIMIT
            self.received = number


_state = _State()
_watched: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()
_watched_lock = threading.Lock()


def install() -> None:
    """Handle the signals of this process that are not ignored; until `begin`, each ends the process at once."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    reading, writing = _state.pipe = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()
    sys.unraisablehook = _unraisable


def begin() -> None:
    """Let signals raise `Interrupted` in the main thread from now on."""
    _state.unwinds = True


def end() -> None:
    """Let signals end the process at once from now on: nothing is left to unwind; further signals are ignored."""
    _state.unwinds = False
    if _state.received:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def release() -> None:
    """Stop watching: the caller handles signals itself, and forks."""
    if _state.pipe:
        os.write(_state.pipe[1], _STOP_WATCHING)
        for thread in threading.enumerate():
            if thread.name == "signals":
                thread.join()
        signal.set_wakeup_fd(-1)
        for descriptor in _state.pipe:
            os.close(descriptor)
        _state.pipe = None


def reset() -> None:
    """Let signals end this process as they end any other one: it was forked, and somebody else reports."""
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_DFL)


def received() -> int:
    """Return the number of the signal that ends this process, 0 if there was none."""
    return _state.received


def check() -> None:
    """Raise Interrupted after a signal: in a worker thread, where the signal itself raises nothing."""
    if _state.received:
        raise Interrupted


def sleep(seconds: float) -> None:
    """Sleep; raises Interrupted after a signal, in every thread."""
    _state.cancelled.wait(seconds)
    check()


def time_left() -> float:
    """Return the seconds that worker threads have left to unwind after a signal."""
    return max(0.0, _state.deadline - (LIMIT - GRACE) - time.monotonic())


def watch(target: T, cancel: Callable[[T], object]) -> T:
    """Call ``cancel`` with ``target`` at a signal, from another thread, while somebody else holds ``target``.

    Raises Interrupted if the signal has come already.
    """
    with _watched_lock:
        _watched[target] = cancel
    if _state.received:
        cancel(target)
        raise Interrupted
    return target


def note_updated(name: str) -> None:
    """Mention in the report of a signal that ``name`` was already updated."""
    _state.updated.append(name)


def report(number: int) -> int:
    """Print the line on a signal, once, and return the exit status."""
    if _state.reported.acquire(blocking=False):
        updated = f"; already updated: {', '.join(_state.updated)}" if _state.updated else ""
        line = escape_controls(f"Error: interrupted by {signal.Signals(number).name}{updated}")
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"{line}\n".encode())
    return 128 + number


def _handle(number: int, frame: FrameType | None) -> None:
    _state.note(number)
    if not _state.unwinds:
        _exit(number)
    if not _state.raised and not _imports(frame):  # else the thread that watches sends it again
        _state.raised = True
        raise Interrupted


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported: extensions such as orjson crash if an exception breaks that off."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTLIB:
            return True
        frame = frame.f_back
    return False


def _exit(number: int) -> NoReturn:
    os._exit(report(_state.received or number))


def _watch(reading: int) -> None:
    while True:
        numbers = os.read(reading, 64)
        number = next((number for number in numbers if number in SIGNALS), 0)
        if number:
            break
        if _STOP_WATCHING in numbers:
            return
    _state.note(number)
    _state.cancelled.set()
    with _watched_lock:
        targets = list(_watched.items())
    for target, cancel in targets:
        try:
            cancel(target)
        except Exception:  # noqa: BLE001, S112 - the others are cancelled, and the limit holds
            continue
    while time.monotonic() < _state.deadline:
        time.sleep(_STEP)
        if _state.unwinds and not _state.raised:
            signal.pthread_kill(threading.main_thread().ident or 0, number)
    _exit(number)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise Interrupted again where a destructor swallows it."""
    if issubclass(unraisable.exc_type, Interrupted):
        _state.raised = False
    else:
        sys.__unraisablehook__(unraisable)
