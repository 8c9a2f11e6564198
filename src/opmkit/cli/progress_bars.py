"""Progress bars on a terminal."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from opmkit.imagetools.escape import escape_controls


class AmountColumn(TextColumn):
    """The completed and the total amount, in bytes with their rate or in the unit of the task."""

    def __init__(self) -> None:
        """Create the column."""
        super().__init__("")

    def render(self, task: Task) -> Text:
        """Return the text for one bar."""
        unit = task.fields["unit"]
        amounts = [amount for amount in (task.completed, task.total) if amount is not None]
        if unit == "bytes":
            rate = f", {decimal(int(task.speed))}/s" if task.speed else ""
            return Text(" of ".join(decimal(int(amount)) for amount in amounts) + rate)
        return Text(f"{' of '.join(f'{amount:.0f}' for amount in amounts)} {unit}")


class ProgressBars:
    """A bar for the current task, removed when the task ends; a context manager."""

    def __init__(self) -> None:
        """Draw on stderr: stdout is for results."""
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            AmountColumn(),
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

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Show a bar for ``label``; without a total it pulses."""
        with self._lock:
            self._remove()
            self._task = self._bars.add_task(escape_controls(label), total=total, unit=unit)

    def advance(self, count: int) -> None:
        """Advance the bar by ``count`` units."""
        with self._lock:
            if self._task is not None:
                self._bars.advance(self._task, count)

    def end(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
