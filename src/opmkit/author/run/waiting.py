"""Waiting for a state of a cluster, with a deadline and reports of progress."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from opmkit.author.run.errors import OlmError
from opmkit.core import interrupts
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

POLL_INTERVAL = 0.5
"""Seconds between two requests."""


class Reporter(Protocol):
    """A receiver of reports about a long operation."""

    def finished(self, text: str) -> None:
        """Report a finished step."""

    def waiting(self, text: str) -> None:
        """Report the current state; called repeatedly, also if it did not change."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A state that is not reached yet.

    Attributes:
        text: The state, such as ``InstallPlan x to be created``.
        detail: What the cluster reports instead, "" if nothing.
    """

    text: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the state with the detail."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


class TimedOut(OlmError):
    """The deadline passed before the cluster reached a state.

    Attributes:
        pending: The state that was waited for.
    """

    def __init__(self, seconds: float, pending: str) -> None:
        """Create the error."""
        super().__init__(f"timed out after {format_seconds(seconds)}: waited for {pending}")
        self.pending = pending


@dataclass(frozen=True)
class WaitDeadline:
    """The time that an operation may take, in seconds from the creation of this object."""

    seconds: float
    end: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the end."""
        object.__setattr__(self, "end", time.monotonic() + self.seconds)

    @property
    def remaining(self) -> float:
        """Seconds until the end, at least 0."""
        return max(0.0, self.end - time.monotonic())


def wait_until(check: Callable[[], T | Pending], deadline: WaitDeadline, reporter: Reporter) -> T:
    """Call ``check`` until it returns something else than Pending, and return that.

    Responses of an overloaded or restarting API server are ignored until the deadline.

    Raises:
        TimedOut: The deadline passes.
        ClusterError: The cluster rejects a request, or cannot be reached until the deadline.
        Interrupted: After a signal.
    """
    while True:
        failure: ClusterError | None = None
        try:
            state = check()
        except ClusterError as error:
            if error.status and error.status != 429 and error.status < 500:
                raise
            failure, state = error, Pending("a response of the API server")
        if not isinstance(state, Pending):
            return state
        reporter.waiting(str(state))
        if not deadline.remaining:
            raise failure or TimedOut(deadline.seconds, state.text)
        interrupts.sleep(min(POLL_INTERVAL, deadline.remaining))


def format_seconds(seconds: float) -> str:
    """Return a duration as Go writes it, such as ``2m0s``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
