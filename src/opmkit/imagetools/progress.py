"""Interface for progress reports."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A receiver of progress reports on one task at a time; ``advance`` may be called from several threads."""

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Start a task of ``total`` units, or of unknown size."""

    def advance(self, count: int) -> None:
        """Report that ``count`` more units are done."""

    def end(self) -> None:
        """End the task, whether it succeeded or failed."""


class NullProgress:
    """A receiver that ignores all reports."""

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Do nothing."""

    def advance(self, count: int) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


NO_PROGRESS = NullProgress()
