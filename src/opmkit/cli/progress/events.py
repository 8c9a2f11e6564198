"""Progress as JSON lines on stderr, for programs."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

_INTERVAL = 0.25
"""Seconds between two ``advance`` events of a task."""
_STEP_INTERVAL = 1.0
"""Seconds without a task until a step begins, and between two of its ``advance`` events."""


class ProgressEvents:
    """A receiver of progress that writes events; a context manager that ends the last task.

    Each line is a JSON object with the ``event``: ``begin``, ``advance`` or ``end``; the ``task``, its ``unit`` and
    ``total`` (null if it is unknown); the units that are ``done``; the ``seconds`` since the task began; and the
    average ``rate``, in units per second. Steps of unknown size have the unit
    ``seconds``. Tasks with another unit than these have the bytes ``transferred``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Use ``clock``, in seconds, for durations and rates."""
        self._clock = clock
        self._lock = threading.Lock()
        self._task: dict[str, Any] | None = None
        self._done = 0
        self._is_read = self._is_step = False
        self._started = self._written = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Write ``begin`` for a task, after ``end`` for the task before it."""
        with self._lock:
            self._begin(label, total, unit)

    def advance(self, count: int) -> None:
        """Count units, and write ``advance`` a few times per second."""
        with self._lock:
            if not self._is_read and not self._is_step:
                self._done += count
                self._write_advance()

    def end(self) -> None:
        """Write ``end`` with the final numbers, whether the task succeeded or failed."""
        with self._lock:
            self._end()

    def begin_read(self, subject: str, total: int, done: int) -> None:
        """Write ``begin`` for a read, unless there is a task."""
        with self._lock:
            if self._task is None or self._is_step:
                self._begin(f"Reading {subject}", total or None, "bytes")
                self._done, self._is_read = done, True

    def expect(self, total: int) -> None:
        """Set the size of the read."""
        with self._lock:
            if self._task is not None and self._is_read:
                self._task["total"] = total

    def transferred(self, count: int) -> None:
        """Count the bytes of a read, or those of a task with another unit."""
        with self._lock:
            if self._task is None:
                return
            if self._is_read:
                self._done += count
            elif "transferred" in self._task:
                self._task["transferred"] += count
            self._write_advance()

    def end_read(self) -> None:
        """Write ``end`` for a read."""
        with self._lock:
            if self._is_read:
                self._end()

    def show_step(self, label: str) -> None:
        """Write ``begin`` for a step after a second without a task or a read, and ``advance`` each second."""
        with self._lock:
            if self._task is None and self._clock() - self._written >= _STEP_INTERVAL:
                self._begin(label, None, "seconds")
                self._is_step = True
            elif self._is_step:
                self._done = int(self._clock() - self._started)
                self._write_advance(_STEP_INTERVAL)

    def end_step(self) -> None:
        """Write ``end`` for a step."""
        with self._lock:
            if self._is_step:
                self._end()

    def _begin(self, label: str, total: int | None, unit: str) -> None:
        self._end()
        self._task = {"task": label, "unit": unit, "total": total}
        if unit not in ("bytes", "seconds"):
            self._task["transferred"] = 0
        self._done, self._started = 0, self._clock()
        self._write("begin")

    def _end(self) -> None:
        if self._task is not None:
            self._write("end")
        self._task = None
        self._is_read = self._is_step = False

    def _write_advance(self, interval: float = _INTERVAL) -> None:
        if self._task is not None and self._clock() - self._written >= interval:
            self._write("advance")

    def _write(self, event: str) -> None:
        self._written = self._clock()
        seconds = self._written - self._started
        rate = round(self._done / seconds, 1) if seconds > 0 else 0.0
        fields = {"event": event, **(self._task or {}), "done": self._done, "seconds": round(seconds, 3), "rate": rate}
        print_event(fields)


def print_event(fields: Mapping[str, Any]) -> None:
    """Write an event as one line of JSON to stderr."""
    line = json.dumps(fields).replace("\x7f", "\\u007f")  # JSON does not escape DEL, which terminals interpret
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
