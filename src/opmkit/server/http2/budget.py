"""Limits on frames that cost the server work without asking for anything; a flood of them ends the connection."""

from __future__ import annotations

import time
from dataclasses import dataclass

from opmkit.server.http2.frames import ConnectionFailed, ErrorCode

MAX_FRAMES = 5000
"""Such frames in `PERIOD` seconds, in addition to those that responses justify."""
PERIOD = 60.0
FRAMES_PER_RESPONSE = 8
"""Frames that each response justifies."""
BYTES_PER_FRAME = 1024
"""Bytes of responses that justify another frame, usually a window update."""
MIN_PING_INTERVAL = 5.0
"""Seconds between two pings without a response in between. Clients of gRPC wait for at least 10."""
MAX_PING_STRIKES = 2


@dataclass(slots=True)
class FrameBudget:
    """Count of the frames of one connection that neither begin an accepted call nor carry a message.

    Responses justify some of them; the others are limited to `MAX_FRAMES` in `PERIOD` seconds.
    """

    _spent: int = 0
    _settled: int = 0
    _since: float | None = None

    def spend(self, responses: int, sent: int) -> None:
        """Count a frame, given the totals of responses and of bytes sent so far; raises ConnectionFailed."""
        self._spent += 1
        if self._since is None:
            self._since = time.monotonic()
        if self._spent <= MAX_FRAMES:
            return
        earned = responses * FRAMES_PER_RESPONSE + sent // BYTES_PER_FRAME
        self._spent = max(0, self._spent - (earned - self._settled))
        self._settled = earned
        if self._spent > MAX_FRAMES:
            now = time.monotonic()
            if now - self._since < PERIOD:
                raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many control frames")
            self._spent, self._since = 0, now


@dataclass(slots=True)
class PingGuard:
    """Enforcement of gRPC's rule for keepalive pings: not too often, unless responses are sent in between."""

    _last: float | None = None
    _progress: tuple[int, int] = (0, 0)
    _strikes: int = 0

    def count(self, responses: int, sent: int) -> None:
        """Count a ping, given the totals of responses and of bytes sent so far; raises ConnectionFailed."""
        now, last = time.monotonic(), self._last
        self._last = now
        if self._progress != (responses, sent):
            self._progress, self._strikes = (responses, sent), 0
        elif last is not None and now - last < MIN_PING_INTERVAL:
            self._strikes += 1
            if self._strikes > MAX_PING_STRIKES:
                raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")  # clients compare this text
