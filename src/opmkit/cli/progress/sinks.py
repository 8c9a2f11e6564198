"""Displays of progress: the interface of all of them, JSON lines for programs, and lines for plain terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Self

from msgspec import Struct

from opmkit.cli.output.errors import print_to_stderr

_INTERVAL = 0.25
"""Seconds between two ``advance`` events of a task."""
_STEP_INTERVAL = 1.0
"""Seconds without a task until a step begins, and between two of its ``advance`` events."""


class ProgressKind(Enum):
    """Kinds of progress."""

    TASK = auto()
    READ = auto()
    STEP = auto()


class ProgressItem(Struct):
    """A task, a read or a step, and how much of it is done.

    Attributes:
        kind: a task that a command reports, a read of images, or a step of unknown size.
        label: description, such as ``Pulling bundles``.
        total: number of units, None if it is unknown.
        unit: ``bytes``, ``seconds`` for steps, or the plural of what is counted.
        done: number of units that are done.
        transferred: bytes that a task with another unit transferred.
    """

    kind: ProgressKind
    label: str
    total: int | None
    unit: str = "bytes"
    done: int = 0
    transferred: int = 0


class ProgressSink:
    """A display of one item at a time; a context manager, whose methods are called by one thread at a time."""

    step_delay = 0.0
    """Seconds without another item until a step is shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, item: ProgressItem) -> None:
        """Show an item that begins."""

    def update(self, item: ProgressItem) -> None:
        """Show how much of the item is done; called often."""

    def end(self, item: ProgressItem) -> None:
        """Hide the item, which is done or failed."""


class ProgressEvents(ProgressSink):
    """JSON lines on stderr.

    Each line is an object with the ``event``: ``begin``, ``advance`` or ``end``; the ``task``, its ``unit`` and
    ``total`` (null if it is unknown); the units that are ``done``; the ``seconds`` since the task began; and the
    average ``rate``, in units per second. Steps of unknown size have the unit ``seconds``. Tasks with another unit than
    these have the bytes ``transferred``.
    """

    step_delay = _STEP_INTERVAL

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Use ``clock``, in seconds, for durations and rates."""
        self._clock = clock
        self._started = self._written = 0.0

    def begin(self, item: ProgressItem) -> None:
        """Write ``begin``."""
        self._started = self._clock()
        self._write("begin", item)

    def update(self, item: ProgressItem) -> None:
        """Write ``advance`` a few times per second, and once per second for a step."""
        is_step = item.kind is ProgressKind.STEP
        now = self._clock()
        if is_step:
            item.done = int(now - self._started)
        if now - self._written >= (_STEP_INTERVAL if is_step else _INTERVAL):
            self._write("advance", item)

    def end(self, item: ProgressItem) -> None:
        """Write ``end`` with the final numbers, whether the task succeeded or failed."""
        self._write("end", item)

    def _write(self, event: str, item: ProgressItem) -> None:
        self._written = self._clock()
        seconds = self._written - self._started
        transferred = {} if item.unit in ("bytes", "seconds") else {"transferred": item.transferred}
        rate = round(item.done / seconds, 1) if seconds > 0 else 0.0
        task = {"event": event, "task": item.label, "unit": item.unit, "total": item.total, **transferred}
        print_event({**task, "done": item.done, "seconds": round(seconds, 3), "rate": rate})


class ProgressLines(ProgressSink):
    """A line on stderr for each item when it begins, unless it was printed before."""

    def __init__(self) -> None:
        """Start without printed lines."""
        self._printed: set[str] = set()

    def begin(self, item: ProgressItem) -> None:
        """Print the label, with the total if it is known."""
        amount = "" if item.total is None or item.unit == "bytes" else f": {item.total} {item.unit}"
        text = f"{item.label}{amount} ..."
        if text not in self._printed:
            self._printed.add(text)
            print_to_stderr(text)


def print_event(fields: Mapping[str, Any]) -> None:
    """Write an event as one line of JSON to stderr."""
    import json  # slow to import: few command lines ask for events

    line = json.dumps(fields).replace("\x7f", "\\u007f")  # JSON does not escape DEL, which terminals interpret
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
