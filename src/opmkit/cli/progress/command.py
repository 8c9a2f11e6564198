"""Progress of one command: the tasks that it reports, and the reads and other steps that take long."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self, cast

from opmkit.cli.output.errors import print_to_stderr
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


class Display(Protocol):
    """A display of the task of a command, or else of a read."""

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Start a task."""

    def advance(self, count: int) -> None:
        """Report that ``count`` more units are done."""

    def end(self) -> None:
        """End the task."""

    def begin_read(self, subject: str, total: int, done: int) -> None:
        """Show a read of ``total`` bytes (0: unknown), of which some are done, unless there is a task."""

    def expect(self, total: int) -> None:
        """Set the size of the read."""

    def transferred(self, count: int) -> None:
        """Add bytes to the read, or to the bytes of a task with another unit."""

    def end_read(self) -> None:
        """Hide the read."""

    def show_step(self, label: str) -> None:
        """Show the current step of the command, unless a task or a read is shown; called repeatedly."""

    def end_step(self) -> None:
        """Hide the step."""


class CommandProgress:
    """Progress in one format, on stderr."""

    def __init__(self, chosen: ProgressFormat) -> None:
        """Show bars only if stderr is a terminal."""
        self.format = chosen
        is_json = chosen is ProgressFormat.JSON
        self._is_json = is_json
        self._is_shown = is_json or (chosen is ProgressFormat.AUTO and sys.stderr.isatty())
        self._waits = WaitProgress(self._display, 0 if is_json else _DELAY, 0 if is_json else _NEXT_DELAY)

    def open(self) -> AbstractContextManager[Progress]:
        """Return a context with a receiver of progress reports."""
        return self._waits.open() if self._is_shown else nullcontext(NO_PROGRESS)

    def step(self, label: str) -> AbstractContextManager[None]:
        """Return a context that shows ``label`` if it takes long."""
        return self._waits.step(label) if self._is_shown and label else nullcontext()

    def observer(self) -> TransferObserver:
        """Return the observer of reads for registry clients."""
        return self._waits if self._is_shown else NO_TRANSFERS

    def _display(self) -> AbstractContextManager[Display]:
        if self._is_json:
            from opmkit.cli.progress.events import ProgressEvents

            return ProgressEvents()
        if os.environ.get("TERM", "") in _DUMB_TERMINALS:
            return ProgressLines()
        from opmkit.cli.progress.bars import ProgressBars

        return ProgressBars()


class WaitProgress:
    """The bytes of reads, and steps without known progress, shown after a while or between tasks. Thread-safe."""

    def __init__(self, open_display: _OpenDisplay, delay: float, next_delay: float) -> None:
        """Show reads on a display ``delay`` seconds after the first one began, later ones after ``next_delay``."""
        self._open_display = open_display
        self._delay, self._next_delay = delay, next_delay
        self._lock = threading.RLock()
        self._first = 0.0
        self._readers = self._done = self._expected = 0
        self._subject = ""
        self._steps: list[str] = []
        self._display: Display | None = None
        self._own: AbstractContextManager[Display] | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def open(self) -> Iterator[Progress]:
        """Open a display for the tasks of the command; it also shows reads and steps."""
        with ExitStack() as stack:
            with self._lock:
                self._hide_read()
                self._close_own()
                self._display = stack.enter_context(self._open_display())
            try:
                yield self._display
            finally:
                with self._lock:
                    self._display = None
                    stack.close()

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Show ``label`` while nothing else is shown, if the block takes long."""
        is_done = threading.Event()
        with self._lock:
            self._steps.append(label)
            if len(self._steps) == 1:
                arguments = (is_done, self._remaining_delay(_DELAY, _NEXT_DELAY))
                ticker = threading.Thread(target=self._tick, args=arguments, name="progress", daemon=True)
                ticker.start()
            else:
                ticker = None
        try:
            yield
        finally:
            with self._lock:
                is_done.set()
                self._steps.pop()
                if self._display is not None:
                    self._display.end_step()
                if not self._steps and not self._readers:
                    self._close_own()
            if ticker is not None:
                ticker.join()  # servers fork after a step, and must not have threads then

    @contextmanager
    def reading(self, subject: str) -> Iterator[None]:
        """Show a read if it takes long."""
        try:
            with self._lock:
                self._readers += 1
                if self._readers == 1:
                    self._begin(subject)
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    self._hide_read()
                    if not self._steps:
                        self._close_own()

    def expect(self, size: int) -> None:
        """Add to the size of the current reads."""
        with self._lock:
            self._expected = max(self._expected, self._done) + size
            if self._display is not None:
                self._display.expect(self._expected)

    def transferred(self, count: int) -> None:
        """Add to the bytes of the current reads."""
        with self._lock:
            self._done += count
            if self._display is not None:
                self._display.transferred(count)

    def _begin(self, subject: str) -> None:
        self._subject, self._done, self._expected = subject, 0, 0
        delay = self._remaining_delay(self._delay, self._next_delay)
        if not delay:
            self._show_read()
            return
        self._timer = threading.Timer(delay, self._show_read)
        self._timer.daemon = True
        self._timer.start()

    def _show_read(self) -> None:
        with self._lock:
            if self._readers:
                self._shown().begin_read(self._subject, self._expected, self._done)

    def _remaining_delay(self, delay: float, next_delay: float) -> float:
        """Return the seconds until a wait that begins now is shown; the time since the first one counts."""
        now = time.monotonic()
        self._first = self._first or now
        return max(self._first + delay - now, next_delay)

    def _tick(self, is_done: threading.Event, delay: float) -> None:
        """Show the innermost step again and again, since tasks and reads hide it."""
        if is_done.wait(delay):
            return
        while True:
            with self._lock:
                if is_done.is_set():
                    return
                self._shown().show_step(self._steps[-1])
            if is_done.wait(_TICK):
                return

    def _shown(self) -> Display:
        """Return the display, which is opened if the command has none for its tasks."""
        if self._display is None:
            self._own = self._open_display()
            self._display = self._own.__enter__()
        return self._display

    def _hide_read(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._display is not None:
            self._display.end_read()

    def _close_own(self) -> None:
        if self._own is not None:
            self._own.__exit__(None, None, None)
            self._own = self._display = None


class _OpenDisplay(Protocol):
    def __call__(self) -> AbstractContextManager[Display]: ...


class ProgressLines:
    """A line for each task, read or step when it begins, unless it was printed before; a context manager."""

    def __init__(self) -> None:
        """Start without tasks."""
        self._printed: set[str] = set()
        self._has_task = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Print a task."""
        self._has_task = True
        self._print(label if total is None or unit == "bytes" else f"{label}: {total} {unit}")

    def advance(self, count: int) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Let reads and steps be printed again."""
        self._has_task = False

    def begin_read(self, subject: str, total: int, done: int) -> None:
        """Print a read, unless there is a task."""
        if not self._has_task:
            self._print(f"Reading {subject}")

    def expect(self, total: int) -> None:
        """Do nothing."""

    def transferred(self, count: int) -> None:
        """Do nothing."""

    def end_read(self) -> None:
        """Do nothing."""

    def show_step(self, label: str) -> None:
        """Print a step, unless there is a task."""
        if not self._has_task:
            self._print(label)

    def end_step(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        with self._lock:
            is_new = text not in self._printed
            self._printed.add(text)
        if is_new:
            print_to_stderr(f"{text} ...")


class ProgressFormat(StrEnum):
    """Formats of progress on stderr."""

    AUTO = "auto"
    JSON = "json"
    NONE = "none"


class _Command:
    """The current command. Its worker threads report progress, too, so this is not a context variable."""

    progress: CommandProgress | None = None


def set_progress_format(chosen: ProgressFormat) -> None:
    """Set the format of the progress of a command that begins."""

    _Command.progress = CommandProgress(chosen)


def _command_progress() -> CommandProgress:
    if _Command.progress is None:
        set_progress_format(ProgressFormat.AUTO)
    return cast("CommandProgress", _Command.progress)


def progress_format() -> ProgressFormat:
    """Return the format of the progress of the current command."""
    return _command_progress().format


@contextmanager
def progress(step: str = "") -> Iterator[Progress]:
    """Show progress on stderr: bars if it is a terminal, or events in JSON, as the command line chooses.

    Args:
        step: what the block does between its tasks, such as ``Changing the index``.
    """
    with _command_progress().open() as receiver, _command_progress().step(step):
        yield receiver


def waiting(step: str) -> AbstractContextManager[None]:
    """Return a context that shows ``step``, such as ``Loading the catalog``, with the progress if it takes long.

    The block must not print to stdout.
    """
    return _command_progress().step(step)


def transfer_observer() -> TransferObserver:
    """Return the observer that shows the reads of images in the progress of the current command."""
    return _command_progress().observer()
