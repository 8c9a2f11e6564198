"""Progress of one command: the tasks that it reports, and the reads and other steps that take long."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.cli.progress.sinks import ProgressEvents, ProgressItem, ProgressKind, ProgressLines, ProgressSink
from opmkit.core import interrupts
from opmkit.core.progress import NO_PROGRESS, NO_TRANSFERS

if TYPE_CHECKING:
    from opmkit.core.progress import Progress, TransferObserver


_DELAY = 1.0
"""Seconds of waiting after which a command shows a bar."""
_NEXT_DELAY = 0.1
"""Seconds until a bar is shown again, so that quick reads do not flicker."""
_DUMB_TERMINALS = ("dumb", "unknown")
_TICK = 0.2
"""Seconds between two looks at whether a step is idle."""


class ProgressFormat(StrEnum):
    """Formats of progress on stderr."""

    AUTO = "auto"
    JSON = "json"
    NONE = "none"


class CommandProgress:
    """Progress on one display, which is open while it is needed. Thread-safe.

    Tasks are shown at once; a read if no task is shown, after a while; and the innermost step if nothing else is.
    """

    def __init__(self, open_sink: Callable[[], ProgressSink], read_delay: float = 0, next_delay: float = 0) -> None:
        """Show the first read ``read_delay`` seconds after it began, later ones after ``next_delay``."""
        self._open_sink = open_sink
        self._read_delay, self._next_delay = read_delay, next_delay
        self._lock = threading.RLock()
        self._sink: ProgressSink | None = None
        self._item: ProgressItem | None = None
        self._idle_since = 0.0
        self._first_wait = 0.0
        self._openers = self._readers = 0
        self._read = ProgressItem(ProgressKind.READ, "", None)
        self._steps: list[str] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def open(self) -> Iterator[Progress]:
        """Open the display for the tasks of the command."""
        try:
            with self._lock:
                self._openers += 1
                self._hide_read()
                self._opened_sink()
            yield self
        finally:
            with self._lock:
                self._openers -= 1
                self._hide()
                self._close_unused()

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Show a task instead of the one before."""
        with self._lock:
            self._show(ProgressItem(ProgressKind.TASK, label, total, unit))

    def advance(self, count: int) -> None:
        """Show that ``count`` more units are done."""
        with self._lock:
            if self._item is not None and self._item.kind is ProgressKind.TASK:
                self._item.done += count
                self._update()

    def end(self) -> None:
        """Hide the task, whether it succeeded or failed."""
        with self._lock:
            self._hide()

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Show ``label`` while nothing else is shown, if the block takes long."""
        is_done = threading.Event()
        ticker = None
        with self._lock:
            self._steps.append(label)
            if len(self._steps) == 1:
                arguments = (is_done, self._remaining_delay(_DELAY, _NEXT_DELAY))
                ticker = threading.Thread(target=self._tick, args=arguments, name="progress", daemon=True)
                ticker.start()
        try:
            yield
        finally:
            with self._lock:
                is_done.set()
                self._steps.pop()
                self._hide(ProgressKind.STEP)
                self._close_unused()
            if ticker is not None:
                ticker.join()  # servers fork after a step, and must not have threads then

    @contextmanager
    def reading(self, subject: str) -> Iterator[None]:
        """Show a read if it takes long."""
        try:
            with self._lock:
                self._readers += 1
                if self._readers == 1:
                    self._begin_read(subject)
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    self._hide_read()
                    self._close_unused()

    def expect(self, size: int) -> None:
        """Add to the size of the current reads."""
        with self._lock:
            self._read.total = max(self._read.total or 0, self._read.done) + size
            if self._item is self._read:
                self._update()

    def transferred(self, count: int) -> None:
        """Add to the bytes of the current reads, and of the task."""
        with self._lock:
            self._read.done += count
            if self._item is not None:
                if self._item.kind is ProgressKind.TASK:
                    self._item.transferred += count
                self._update()

    def _begin_read(self, subject: str) -> None:
        self._read = ProgressItem(ProgressKind.READ, f"Reading {subject}", None)
        delay = self._remaining_delay(self._read_delay, self._next_delay)
        if not delay:
            self._show_read()
            return
        self._timer = threading.Timer(delay, self._show_read)
        self._timer.daemon = True
        self._timer.start()

    def _show_read(self) -> None:
        with self._lock:
            is_free = self._item is None or self._item.kind is ProgressKind.STEP
            if self._readers and is_free and not interrupts.received_signal():
                self._opened_sink()
                self._show(self._read)

    def _hide_read(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hide(ProgressKind.READ)

    def _remaining_delay(self, delay: float, next_delay: float) -> float:
        """Return the seconds until a wait that begins now is shown; the time since the first one counts."""
        now = time.monotonic()
        self._first_wait = self._first_wait or now
        return max(self._first_wait + delay - now, next_delay)

    def _tick(self, is_done: threading.Event, delay: float) -> None:
        """Show the innermost step again and again, since tasks and reads hide it."""
        while not is_done.wait(delay):
            delay = _TICK
            with self._lock:
                if not is_done.is_set() and not interrupts.received_signal():  # nothing would show the cursor again
                    self._show_step(self._steps[-1])

    def _show_step(self, label: str) -> None:
        if self._item is not None:
            if self._item.kind is ProgressKind.STEP:
                self._update()
        elif time.monotonic() - self._idle_since >= self._opened_sink().step_delay:
            self._show(ProgressItem(ProgressKind.STEP, label, None, "seconds"))

    def _show(self, item: ProgressItem) -> None:
        self._hide()
        if self._sink is not None:
            self._item = item
            self._sink.begin(item)

    def _update(self) -> None:
        if self._sink is not None and self._item is not None:
            self._sink.update(self._item)

    def _hide(self, kind: ProgressKind | None = None) -> None:
        """Hide the item, if there is one of this kind; None for any."""
        if self._sink is not None and self._item is not None and kind in (None, self._item.kind):
            self._sink.end(self._item)
            self._item, self._idle_since = None, time.monotonic()

    def _opened_sink(self) -> ProgressSink:
        if self._sink is None:
            self._sink = self._open_sink().__enter__()
            self._idle_since = 0.0
        return self._sink

    def _close_unused(self) -> None:
        """Close the display unless the command has tasks, steps or reads."""
        if self._sink is not None and not (self._openers or self._readers or self._steps):
            self._hide()
            self._sink.__exit__(None, None, None)
            self._sink = None


def _open_sink(chosen: ProgressFormat) -> ProgressSink:
    if chosen is ProgressFormat.JSON:
        return ProgressEvents()
    if os.environ.get("TERM", "") in _DUMB_TERMINALS:
        return ProgressLines()
    from opmkit.cli.progress.bars import ProgressBars

    return ProgressBars()


class _Command:
    """The current command. Its worker threads report progress, too, so this is not a context variable."""

    format = ProgressFormat.AUTO
    progress: CommandProgress | None = None
    is_started = False


def set_progress_format(chosen: ProgressFormat) -> None:
    """Set the format of the progress of a command that begins; bars are shown only if stderr is a terminal."""
    _Command.format, _Command.is_started, _Command.progress = chosen, True, None
    if chosen is ProgressFormat.JSON:
        _Command.progress = CommandProgress(lambda: _open_sink(chosen))
    elif chosen is ProgressFormat.AUTO and sys.stderr.isatty():
        _Command.progress = CommandProgress(lambda: _open_sink(chosen), _DELAY, _NEXT_DELAY)


def _command_progress() -> CommandProgress | None:
    """Return the progress of the current command, None if it shows none."""
    if not _Command.is_started:
        set_progress_format(ProgressFormat.AUTO)
    return _Command.progress


def progress_format() -> ProgressFormat:
    """Return the format of the progress of the current command."""
    return _Command.format


@contextmanager
def progress(step: str = "") -> Iterator[Progress]:
    """Show progress on stderr: bars if it is a terminal, or events in JSON, as the command line chooses.

    Args:
        step: what the block does between its tasks, such as ``Changing the index``.
    """
    shown = _command_progress()
    with shown.open() if shown else nullcontext(NO_PROGRESS) as receiver, waiting(step):
        yield receiver


def waiting(step: str) -> AbstractContextManager[None]:
    """Return a context that shows ``step``, such as ``Loading the catalog``, with the progress if it takes long.

    The block must not print to stdout.
    """
    shown = _command_progress()
    return shown.step(step) if shown and step else nullcontext()


def transfer_observer() -> TransferObserver:
    """Return the observer that shows the reads of images in the progress of the current command."""
    return _command_progress() or NO_TRANSFERS
