"""Reports of long operations on stderr: a line for each finished step, and the current state."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.cli.output.errors import print_to_stderr
from opmkit.cli.progress.command import ProgressFormat, progress_format
from opmkit.cli.progress.events import print_event
from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from rich.status import Status


class StatusLines:
    """A reporter that prints lines: each step, and each state the first time."""

    def __init__(self) -> None:
        """Start without states."""
        self._printed: set[str] = set()

    def finished(self, text: str) -> None:
        """Print a finished step."""
        print_to_stderr(text)

    def waiting(self, text: str) -> None:
        """Print the state, unless it was printed before."""
        if text not in self._printed:
            self._printed.add(text)
            print_to_stderr(f"waiting for {text}")


class StatusEvents:
    """A reporter that writes JSON lines: an event for each step, and for each state when it changes."""

    def __init__(self) -> None:
        """Start the clock."""
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


class LiveStatus:
    """A reporter for a terminal: it prints each step, and shows the state in the line below."""

    def __init__(self, status: Status) -> None:
        """Show the state in ``status``, which is on stderr."""
        self._status = status

    def finished(self, text: str) -> None:
        """Print a finished step above the state."""
        self._status.console.print(escape_controls(text), markup=False, highlight=False, soft_wrap=True)

    def waiting(self, text: str) -> None:
        """Replace the state."""
        from rich.text import Text

        self._status.update(Text(f"waiting for {escape_controls(text)}", overflow="ellipsis"))


@contextmanager
def report_status() -> Iterator[StatusLines | StatusEvents | LiveStatus]:
    """Report an operation on stderr: as events if the command line asks for them, live if stderr is a terminal."""
    chosen = progress_format()
    if chosen is ProgressFormat.JSON:
        yield StatusEvents()
        return
    if chosen is ProgressFormat.NONE or not sys.stderr.isatty():
        yield StatusLines()
        return
    from opmkit.cli.progress.bars import StatusConsole

    with StatusConsole().status("starting") as status:
        yield LiveStatus(status)
