"""Streams that a client has opened: what may still be received on them (RFC 9113, sections 5.1 and 8.1.1)."""

from __future__ import annotations

from collections import deque

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
            StreamFailed: the content does not have the length in the headers.
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
