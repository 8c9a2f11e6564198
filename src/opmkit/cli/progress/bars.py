"""Progress bars on a terminal."""

from __future__ import annotations

import sys
from typing import Any, Self

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from opmkit.cli.output.shortening import shorten, shorten_digests
from opmkit.cli.progress.sinks import ProgressItem, ProgressKind, ProgressSink
from opmkit.core.escape import escape_line

_BAR_WIDTH = 10
_OTHER_COLUMNS = _BAR_WIDTH + 38
"""Width of the bar and of the amounts, with the spaces between them."""
_NARROW_COLUMNS = 23
"""Width of the amounts without the bar and the rate."""
_MIN_LABEL = 16
_MIN_NARROW_LABEL = 8


class AmountColumn(TextColumn):
    """The completed and the total amount, in bytes with their rate or in the unit of the task."""

    def __init__(self, *, has_rate: bool = True) -> None:
        """Create the column, which omits bytes per second on narrow terminals."""
        super().__init__("", table_column=Column(no_wrap=True))
        self._has_rate = has_rate

    def render(self, task: Task) -> Text:
        """Return the text for one bar."""
        unit = task.fields["unit"]
        total = task.total if task.total is not None and task.total >= task.completed else None
        amounts = [task.completed] if total is None else [task.completed, total]
        if unit == "seconds":
            return Text(_duration(task.elapsed))
        if unit == "bytes" and total is None and not task.completed:
            return Text(_duration(task.elapsed))  # nothing is known but the time, as of a build by another program
        if unit == "bytes":
            return Text(" of ".join(decimal(int(amount)) for amount in amounts) + self._rate(task.speed))
        text = f"{' of '.join(f'{amount:.0f}' for amount in amounts)} {unit}"
        if (size := task.fields.get("transferred", 0)) and self._has_rate:
            text += f", {decimal(size)}{self._rate(size / task.elapsed if task.elapsed else 0)}"
        return Text(text)

    def _rate(self, speed: float | None) -> str:
        return f", {decimal(int(speed))}/s" if speed and self._has_rate else ""


def _duration(seconds: float | None) -> str:
    minutes, rest = divmod(int(seconds or 0), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class StatusConsole(Console):
    """The console for progress on stderr. What a command prints next to it is neither wrapped nor colored."""

    def __init__(self) -> None:
        """Write to stderr: stdout is for results."""
        super().__init__(stderr=True)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print objects; lines of text, which rich passes on from ``print``, are left to the terminal to break."""
        if objects and all(isinstance(text, Text) for text in objects):
            settings = {"highlight": False, "soft_wrap": True, **settings}
        super().print(*objects, **settings)


class ProgressBars(ProgressSink):
    """A bar on a terminal for the current item."""

    def __init__(self) -> None:
        """Prepare bars on stderr that fit the width of the terminal."""
        console = StatusConsole()
        is_wide = console.width >= _OTHER_COLUMNS + _MIN_LABEL
        self._label_width = (
            console.width - _OTHER_COLUMNS if is_wide else max(console.width - _NARROW_COLUMNS, _MIN_NARROW_LABEL)
        )
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            *((BarColumn(bar_width=_BAR_WIDTH),) if is_wide else ()),
            AmountColumn(has_rate=is_wide),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # text for a file or pipe must not be written to stderr
        )

    def __enter__(self) -> Self:
        try:
            self._bars.start()
        except BaseException:  # an interrupt after the cursor was hidden
            self._bars.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, item: ProgressItem) -> None:
        """Show a bar; without a total it pulses."""
        self._task = self._bars.add_task(self._label(item), total=item.total, completed=item.done, unit=item.unit)

    def update(self, item: ProgressItem) -> None:
        """Advance the bar; a step just shows its duration."""
        if item.kind is not ProgressKind.STEP:
            self._bars.update(self._task, total=item.total, completed=item.done, transferred=item.transferred)

    def end(self, item: ProgressItem) -> None:
        """Remove the bar."""
        self._bars.remove_task(self._task)

    def _label(self, item: ProgressItem) -> str:
        label = shorten_digests(item.label)
        if item.kind is ProgressKind.READ and len(label) > self._label_width:
            verb, _, subject = item.label.partition(" ")
            label = f"{verb} {shorten_digests(subject.rpartition('/')[2])}"  # the registry says least about an image
        return shorten(escape_line(label), self._label_width)
