"""Limits on frames that cost the server work and bring the client nothing: floods of them end the connection."""

from __future__ import annotations

import time
from dataclasses import dataclass

from opmkit.index.server.http2.frames import ConnectionFailed, ErrorCode

MAX_FRAMES = 5000
"""Such frames in `PERIOD` seconds, in addition to those that belong to answers."""
PERIOD = 60.0
FRAMES_PER_ANSWER = 8
"""Frames that a client may send in addition for each call that is answered."""
BYTES_PER_FRAME = 1024
"""Bytes of answers for which a client may send one more frame: mostly window updates."""
MIN_PING_INTERVAL = 5.0
"""Seconds between two pings without an answer in between. gRPC's clients wait for at least 10."""
MAX_PING_STRIKES = 2


@dataclass(slots=True)
class FrameBudget:
    """Count of the frames of one connection that neither begin an accepted call nor carry a message.

    Work that was done for the client pays for such frames. What is not paid for is limited to `MAX_FRAMES` in `PERIOD`
    seconds.
    """

    _spent: int = 0
    _settled: int = 0
    _since: float | None = None

    def spend(self, answers: int, sent: int) -> None:
        """Count a frame, with the totals of calls answered and bytes sent so far; raises ConnectionFailed."""
        self._spent += 1
        if self._since is None:
            self._since = time.monotonic()
        if self._spent <= MAX_FRAMES:
            return
        earned = answers * FRAMES_PER_ANSWER + sent // BYTES_PER_FRAME
        self._spent = max(0, self._spent - (earned - self._settled))
        self._settled = earned
        if self._spent > MAX_FRAMES:
            now = time.monotonic()
            if now - self._since < PERIOD:
                raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")
            self._spent, self._since = 0, now


@dataclass(slots=True)
class PingGuard:
    """Enforcement of gRPC's rule for keepalive pings: not too often, unless answers are sent in between."""

    _last: float | None = None
    _progress: tuple[int, int] = (0, 0)
    _strikes: int = 0

    def count(self, answers: int, sent: int) -> None:
        """Count a ping, with the totals of calls answered and bytes sent so far; raises ConnectionFailed."""
        now, last = time.monotonic(), self._last
        self._last = now
        if self._progress != (answers, sent):
            self._progress, self._strikes = (answers, sent), 0
        elif last is not None and now - last < MIN_PING_INTERVAL:
            self._strikes += 1
            if self._strikes > MAX_PING_STRIKES:
                raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")  # clients know this text
