"""Progress on a terminal that cannot redraw a line, such as one with TERM=dumb."""

from __future__ import annotations

import threading
from typing import Self

from opmkit.cli.errors import print_to_stderr


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
