"""What is tried again, how often, and when it is given up."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from opmkit.imagetools import interrupts
from opmkit.imagetools.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.hints import Hint

T = TypeVar("T")
_log = logging.getLogger(__name__)


class TransientError(RegistryUnavailable):
    """A failure that may pass.

    ``retry_after`` is how many seconds the registry asks to wait; ``unreachable`` means that nobody answered at all, so
    that more than a few attempts are in vain.
    """

    def __init__(
        self, message: str, *, hint: Hint | str = "", retry_after: float | None = None, unreachable: bool = False
    ) -> None:
        """Keep the texts for the error that is raised in the end."""
        super().__init__(message, hint=hint)
        self.retry_after = retry_after
        self.unreachable = unreachable


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of ``clock`` after which nothing is begun."""

    moment: float
    clock: Callable[[], float]

    def left(self) -> float:
        """Seconds until then; never less than 0."""
        return max(0.0, self.moment - self.clock())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter between attempts, all times in seconds.

    A wait that the registry asks for is kept, up to ``longest_asked``. Time and chance can be set for tests.
    """

    attempts: int = 6
    attempts_unreachable: int = 3
    first_wait: float = 0.4
    longest_wait: float = 15.0
    longest_asked: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = interrupts.sleep
    chance: Callable[[], float] = random.random

    def deadline(self, seconds: float) -> Deadline:
        """The deadline of an operation that starts now."""
        return Deadline(self.clock() + seconds, self.clock)

    def run(self, operation: Callable[[], T], deadline: Deadline) -> T:
        """Do ``operation`` until it raises no :class:`TransientError`.

        Raises RegistryUnavailable when the attempts are used up or the next one would start after the deadline; other
        errors pass at once. The operation must bear repetition.
        """
        attempt = 1
        while True:
            try:
                return operation()
            except TransientError as failure:
                wait = self._wait(attempt, failure)
                limit = self.attempts_unreachable if failure.unreachable else self.attempts
                if attempt >= limit or wait > deadline.left():
                    raise _given_up(failure, attempt, wait) from None
                _log.debug("%s; next attempt in %.1f s", failure.message, wait)
            self.sleep(wait)
            attempt += 1

    def _wait(self, attempt: int, failure: TransientError) -> float:
        if failure.retry_after is not None:
            return min(failure.retry_after, self.longest_asked)
        longest = min(self.first_wait * 2.0 ** (attempt - 1), self.longest_wait)
        return longest * (1 + self.chance()) / 2


def _given_up(failure: TransientError, attempts: int, wait: float) -> RegistryUnavailable:
    asked = f"; it asks to wait {wait:.0f} s more" if failure.retry_after else ""
    tried = f"; given up after {attempts} attempts" if attempts > 1 else ""
    return RegistryUnavailable(f"{failure.message}{asked}{tried}", hint=failure.hint)
