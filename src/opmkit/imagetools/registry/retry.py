"""Retries with exponential back-off."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from opmkit.core import interrupts
from opmkit.http.messages import Deadline
from opmkit.imagetools.errors import RegistryUnavailable, RegistryUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.core.hints import Hint

T = TypeVar("T")
_log = logging.getLogger(__name__)


class TransientError(RegistryUnavailable):
    """A failure that a retry may solve.

    Attributes:
        retry_after: Seconds that the registry asks to wait.
        unreachable: Whether the server could not be reached at all, so that fewer retries are worthwhile.
    """

    def __init__(
        self, message: str, *, hint: Hint | str = "", retry_after: float | None = None, unreachable: bool = False
    ) -> None:
        """Create an error."""
        super().__init__(message, hint=hint)
        self.retry_after = retry_after
        self.unreachable = unreachable


class RetryPolicy(Struct, frozen=True):
    """Exponential back-off with jitter; all times are in seconds.

    Attributes:
        max_attempts: Attempts in total.
        max_attempts_unreachable: Attempts in total if the server cannot be reached.
        initial_wait: Maximum wait before the second attempt; it doubles with each further one.
        max_wait: Maximum wait.
        max_retry_after: Maximum wait if the registry sends Retry-After.
        clock: Monotonic clock.
        sleep: Function that waits.
        jitter: Random fraction, from 0 to 1, of the variable half of a wait.
    """

    max_attempts: int = 6
    max_attempts_unreachable: int = 3
    initial_wait: float = 0.4
    max_wait: float = 15.0
    max_retry_after: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = interrupts.sleep
    jitter: Callable[[], float] = random.random

    def deadline(self, seconds: float) -> Deadline:
        """Return the deadline of an operation that starts now."""
        return Deadline(self.clock() + seconds, self.clock)

    def run(self, operation: Callable[[], T], deadline: Deadline) -> T:
        """Call an idempotent operation until it raises no TransientError, and return its result.

        Raises:
            RegistryUnavailable: All attempts failed, or the next one would start after the deadline.
        """
        attempt = 1
        while True:
            try:
                return operation()
            except TransientError as error:
                wait = self._wait(attempt, error)
                max_attempts = self.max_attempts_unreachable if error.unreachable else self.max_attempts
                if attempt >= max_attempts or wait > deadline.remaining():
                    raise _final_error(error, attempt, wait) from None
                _log.debug("%s; next attempt in %.1f s", error.message, wait)
            self.sleep(wait)
            attempt += 1

    def _wait(self, attempt: int, error: TransientError) -> float:
        if error.retry_after is not None:
            return min(error.retry_after, self.max_retry_after)
        longest = min(self.initial_wait * 2.0 ** (attempt - 1), self.max_wait)
        return longest * (1 + self.jitter()) / 2


def _final_error(error: TransientError, attempts: int, wait: float) -> RegistryUnavailable:
    retry_after = f"; the registry asks to retry after {wait:.0f} s" if error.retry_after else ""
    attempted = f"; gave up after {attempts} attempts" if attempts > 1 else ""
    kind = RegistryUnreachable if error.unreachable else RegistryUnavailable
    return kind(f"{error.message}{retry_after}{attempted}", hint=error.hint)
