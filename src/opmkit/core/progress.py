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


class OperationReporter(Protocol):
    """A receiver of reports about a long operation of several steps, such as one in a cluster."""

    def step(self, label: str = "") -> AbstractContextManager[Progress]:
        """Enclose a step that has tasks, such as pulling images; ``label`` describes it between them."""

    def started(self, package: str, namespace: str) -> None:
        """Report that objects of a package are created from now on."""

    def finished(self, text: str) -> None:
        """Report a finished step."""

    def waiting(self, text: str) -> None:
        """Report the current state; called repeatedly, also if it did not change."""

    def warn(self, text: str) -> None:
        """Report a warning."""


class NullOperationReporter:
    """A receiver that ignores all reports."""

    def step(self, label: str = "") -> AbstractContextManager[Progress]:
        """Return a receiver that ignores all reports."""
        return nullcontext(NO_PROGRESS)

    def started(self, package: str, namespace: str) -> None:
        """Do nothing."""

    def finished(self, text: str) -> None:
        """Do nothing."""

    def waiting(self, text: str) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""


NO_OPERATION_REPORTS = NullOperationReporter()


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
