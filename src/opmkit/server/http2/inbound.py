"""Streams that a client has opened: what may still be received on them (RFC 9113, sections 5.1 and 8.1.1)."""

from __future__ import annotations

import time
from collections import deque

from msgspec import Struct

from opmkit.server.http2.frames import MAX_FRAME_SIZE, ConnectionFailed, ErrorCode, StreamFailed

MAX_IGNORED_STREAMS = 512
"""Streams reset by the server whose frames, sent before the client learned of it, are ignored."""
WINDOW_STEP = MAX_FRAME_SIZE
"""Bytes that are received before the flow-control window is increased again."""


class InboundStreams:
    """The streams of one connection, as far as receiving is concerned."""

    def __init__(self) -> None:
        """Start without streams."""
        self.last = 0
        """The number of the last stream that was opened."""
        self.receiving: dict[int, int] = {}
        """Streams with an incomplete request, with the bytes that the window was not increased by yet."""
        self.ignored: dict[int, None] = {}
        """Streams whose frames are ignored."""
        self._remaining: dict[int, int] = {}
        """Bytes that are missing on streams with a content length."""
        self._skipped: deque[range] = deque(maxlen=32)

    def open(self, stream: int) -> None:
        """Open a stream; those with lower numbers cannot be opened any more."""
        if stream - self.last > 2:
            self._skipped.append(range(self.last + 1, stream))
        self.last = stream

    def check_opened(self, stream: int, *, finishing: bool) -> None:
        """Raise ConnectionFailed for a stream that was not opened, unless it may have been refused at the end."""
        if not stream % 2 or (stream > self.last and not finishing):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "frame on a stream that was not opened")

    def was_skipped(self, stream: int) -> bool:
        """Return whether the client opened a higher stream before this one, as far as is remembered."""
        return any(stream in streams for streams in self._skipped)

    def expect_content(self, stream: int, length: int | None) -> None:
        """Expect content on a stream, of ``length`` bytes if the headers contain one."""
        self.receiving[stream] = 0
        if length is not None:
            self._remaining[stream] = length

    def is_content_missing(self, stream: int) -> bool:
        """Return whether content is missing on a stream with a content length."""
        return bool(self._remaining.get(stream))

    def receive(self, stream: int, frame_size: int, content_size: int, *, ended: bool) -> int:
        """Count a DATA frame; return the bytes to increase the stream's window by.

        Raises:
            StreamFailed: The content does not have the length in the headers.
        """
        if stream in self._remaining:
            remaining = self._remaining[stream] = self._remaining[stream] - content_size
            if remaining < 0 or (ended and remaining):
                raise StreamFailed(stream, ErrorCode.PROTOCOL_ERROR)
        if ended:
            del self.receiving[stream]
            self._remaining.pop(stream, None)
            return 0
        unreturned = self.receiving[stream] + frame_size
        self.receiving[stream] = unreturned if unreturned < WINDOW_STEP else 0
        return unreturned if unreturned >= WINDOW_STEP else 0

    def close(self, stream: int) -> None:
        """Expect nothing more on a stream."""
        self.receiving.pop(stream, None)
        self._remaining.pop(stream, None)

    def ignore(self, stream: int) -> None:
        """Ignore the frames that the client sends before it learns that the server has ended the stream."""
        self.ignored[stream] = None
        if len(self.ignored) > MAX_IGNORED_STREAMS:
            del self.ignored[next(iter(self.ignored))]


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


class FrameBudget(Struct):
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


class PingGuard(Struct):
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
