"""Interface for progress reports."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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


class TransferObserver(Protocol):
    """An observer of the reads of images, which several threads call."""

    def reading(self, subject: str) -> AbstractContextManager[object]:
        """Enclose a read of ``subject``, such as an image."""

    def expect(self, size: int) -> None:
        """Report that ``size`` bytes will be transferred for the current reads."""

    def transferred(self, count: int) -> None:
        """Report that ``count`` bytes were read from or written to the network."""


class NullTransfers:
    """An observer that ignores all reads."""

    def reading(self, subject: str) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

    def expect(self, size: int) -> None:
        """Do nothing."""

    def transferred(self, count: int) -> None:
        """Do nothing."""


NO_TRANSFERS = NullTransfers()
