"""Reports of long operations on stderr: a line for each finished step, and the current state."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING

from opmkit.cli.output.errors import print_hint, print_to_stderr, print_warning
from opmkit.cli.output.terminal import fit_line
from opmkit.cli.progress.command import ProgressFormat, progress, progress_format
from opmkit.cli.progress.sinks import print_event
from opmkit.core import interrupts
from opmkit.core.escape import escape_line

if TYPE_CHECKING:
    from rich.status import Status

    from opmkit.core.progress import OperationReporter, Progress


class _CommandReporter:
    """Base class of reporters, which shows the progress of steps and remembers the package."""

    def __init__(self) -> None:
        """Start before the first object is created."""
        self.started_in: tuple[str, str] | None = None

    def step(self, label: str = "") -> AbstractContextManager[Progress]:
        """Show the progress of a step."""
        return progress(label)

    def started(self, package: str, namespace: str) -> None:
        """Remember the package, which an interrupted command leaves behind."""
        self.started_in = (package, namespace)

    def warn(self, text: str) -> None:
        """Print a warning."""
        print_warning(text)

    def close(self) -> None:
        """Hide the state."""


class StatusLines(_CommandReporter):
    """A reporter that prints lines: each step, and each state the first time."""

    def __init__(self) -> None:
        """Start without printed states."""
        super().__init__()
        self._printed: set[str] = set()

    def finished(self, text: str) -> None:
        """Print a finished step."""
        print_to_stderr(text)

    def waiting(self, text: str) -> None:
        """Print the state, unless it was printed before."""
        if text not in self._printed:
            self._printed.add(text)
            print_to_stderr(f"waiting for {text}")


class StatusEvents(_CommandReporter):
    """A reporter that writes JSON lines: an event for each step, and for each state when it changes."""

    def __init__(self) -> None:
        """Start the clock."""
        super().__init__()
        self._started = time.monotonic()
        self._state = ""

    def finished(self, text: str) -> None:
        """Write a finished step."""
        self._state = ""
        self._write("finished", text)

    def waiting(self, text: str) -> None:
        """Write the state if it differs from the one before."""
        if text != self._state:
            self._state = text
            self._write("waiting", text)

    def _write(self, event: str, text: str) -> None:
        seconds = round(time.monotonic() - self._started, 3)
        print_event({"event": event, "task": text, "seconds": seconds})


class LiveStatus(_CommandReporter):
    """A reporter for a terminal: it prints each step, and shows the state in the line below."""

    def __init__(self) -> None:
        """Show nothing before the first report: steps show their own progress."""
        super().__init__()
        self._status: Status | None = None

    def finished(self, text: str) -> None:
        """Print a finished step above the state."""
        line = fit_line(escape_line(text), sys.stderr)
        self._shown().console.print(line, markup=False, highlight=False, soft_wrap=True)

    def waiting(self, text: str) -> None:
        """Show the state instead of the one before."""
        from rich.text import Text

        self._shown().update(Text(f"waiting for {escape_line(text)}", overflow="ellipsis"))

    def started(self, package: str, namespace: str) -> None:
        """Remember the package, and show the state from now on."""
        super().started(package, namespace)
        self._shown()

    def close(self) -> None:
        """Hide the state."""
        if self._status is not None:
            self._status.stop()

    def _shown(self) -> Status:
        if self._status is None:
            from opmkit.cli.progress.bars import StatusConsole

            self._status = StatusConsole().status("starting")
            self._status.start()
        return self._status


@contextmanager
def report_status() -> Iterator[OperationReporter]:
    """Report an operation on stderr: as events if the command line asks for them, live if stderr is a terminal.

    After an interruption, it prints how to remove the objects that the command leaves behind.
    """
    reporter = _reporter()
    try:
        with closing(reporter):
            yield reporter
    except BaseException:  # libraries can turn an interruption into another error
        if reporter.started_in and (number := interrupts.received_signal()):
            package, namespace = reporter.started_in
            interrupts.report(number)
            print_hint(f"run 'opm cleanup {package} --namespace {namespace}' to remove the objects")
        raise


def _reporter() -> StatusLines | StatusEvents | LiveStatus:
    chosen = progress_format()
    if chosen is ProgressFormat.JSON:
        return StatusEvents()
    return StatusLines() if chosen is ProgressFormat.NONE or not sys.stderr.isatty() else LiveStatus()
