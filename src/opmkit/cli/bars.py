"""Progress bars on a terminal."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TaskID, TextColumn, TransferSpeedColumn


class Bars:
    """A bar for the piece of work of each thread, gone when the work is done; a context manager."""

    def __init__(self) -> None:
        """Draw on stderr: stdout is for results."""
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, label: str, total: int | None) -> None:
        """Show a bar for ``label``; ``total`` in bytes, or None for one that only moves."""
        with self._lock:
            self._drop()
            self._task = self._bars.add_task(label, total=total)

    def advance(self, count: int) -> None:
        """Fill the bar by ``count`` bytes."""
        with self._lock:
            if self._task is not None:
                self._bars.advance(self._task, count)

    def end(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
