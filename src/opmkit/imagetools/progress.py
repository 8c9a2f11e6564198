"""How long work on images tells that it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener to one piece of work at a time; ``advance`` may be called from several threads."""

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Work named ``label`` starts; ``total`` is in units, or None where it isn't known."""

    def advance(self, count: int) -> None:
        """``count`` more units are done."""

    def end(self) -> None:
        """The work is over, done or failed."""


class NullProgress:
    """The listener that says nothing."""

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Say nothing."""

    def advance(self, count: int) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


NO_PROGRESS = NullProgress()
