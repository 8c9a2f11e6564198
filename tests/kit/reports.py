"""Receivers of reports about operations on clusters."""

from __future__ import annotations


class NullReporter:
    """A receiver that ignores all reports."""

    def finished(self, text: str) -> None:
        """Do nothing."""

    def waiting(self, text: str) -> None:
        """Do nothing."""


NO_REPORTS = NullReporter()
