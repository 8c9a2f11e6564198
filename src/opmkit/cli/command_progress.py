"""Progress of one command: the tasks that it reports, and the reads of images that take long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from opmkit.cli.console import ProgressFormat
from opmkit.imagetools.progress import NO_PROGRESS, NO_TRANSFERS

if TYPE_CHECKING:
    from opmkit.imagetools.progress import Progress, TransferObserver

_DELAY = 1.0
"""Seconds of reading after which a command shows a bar."""
_NEXT_DELAY = 0.1
"""Seconds until a bar is shown again, so that quick reads do not flicker."""


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


class CommandProgress:
    """Progress in one format, on stderr."""

    def __init__(self, chosen: ProgressFormat) -> None:
        """Show bars only if stderr is a terminal."""
        self.format = chosen
        is_json = chosen is ProgressFormat.JSON
        self._is_json = is_json
        self._is_shown = is_json or (chosen is ProgressFormat.AUTO and sys.stderr.isatty())
        self._reads = ReadProgress(self._display, 0 if is_json else _DELAY, 0 if is_json else _NEXT_DELAY)

    def open(self) -> AbstractContextManager[Progress]:
        """Return a context with a receiver of progress reports."""
        return self._reads.open() if self._is_shown else nullcontext(NO_PROGRESS)

    def observer(self) -> TransferObserver:
        """Return the observer of reads for registry clients."""
        return self._reads if self._is_shown else NO_TRANSFERS

    def _display(self) -> AbstractContextManager[Display]:
        if self._is_json:
            from opmkit.cli.progress_events import ProgressEvents

            return ProgressEvents()
        from opmkit.cli.progress_bars import ProgressBars

        return ProgressBars()


class ReadProgress:
    """The bytes of reads: part of the command's tasks, or shown on their own after a while. Thread-safe."""

    def __init__(self, open_display: _OpenDisplay, delay: float, next_delay: float) -> None:
        """Show reads on a display ``delay`` seconds after the first one began, later ones after ``next_delay``."""
        self._open_display = open_display
        self._delay, self._next_delay = delay, next_delay
        self._lock = threading.RLock()
        self._first = 0.0
        self._readers = self._done = self._expected = 0
        self._subject = ""
        self._display: Display | None = None
        self._own: AbstractContextManager[Display] | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def open(self) -> Iterator[Progress]:
        """Open a display for the tasks of the command; it also shows reads."""
        with self._lock:
            self._hide()
        with self._open_display() as display:
            self._display = display
            try:
                yield display
            finally:
                with self._lock:
                    self._display = None

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
                    self._hide()

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
        now = time.monotonic()
        self._first = self._first or now
        self._subject, self._done, self._expected = subject, 0, 0
        delay = max(self._first + self._delay - now, self._next_delay)
        if not delay:
            self._show()
            return
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._readers:
                return
            if self._display is None:
                self._own = self._open_display()
                self._display = self._own.__enter__()
            self._display.begin_read(self._subject, self._expected, self._done)

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._display is not None:
            self._display.end_read()
        if self._own is not None:
            self._own.__exit__(None, None, None)
            self._own = self._display = None


class _OpenDisplay(Protocol):
    def __call__(self) -> AbstractContextManager[Display]: ...
