"""Sending of responses: streams that share a connection under flow control (RFC 9113, section 5.2)."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.server.http2.frames import (
    DEFAULT_WINDOW,
    MAX_FRAME_SIZE,
    MAX_WINDOW,
    ConnectionFailed,
    ErrorCode,
    Flag,
    FrameType,
    StreamFailed,
    pack_frame,
    rst_stream_frame,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator


MAX_BLOCKED = 1024
"""Responses of one process that wait for their clients, with about 40 KB of buffers each."""
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class OutgoingStream:
    """A response that is being sent: ``sources`` of content, read as far as the window allows, and trailers.

    With empty ``trailers`` the content ends the stream; with None, more content may be added.
    """

    stream: int
    window: int
    sources: deque[Iterator[bytes]] = field(default_factory=deque)
    rest: bytes | memoryview = b""
    sent: int = 0
    trailers: bytes | None = None
    queued: bool = False

    def take(self, size: int) -> bytes | memoryview:
        """Return at most ``size`` of the next bytes, none if there are none at present."""
        data: bytes | memoryview = self.rest
        if len(data) < size and self.sources:
            data = self._gather(size)
        if len(data) > size:
            view = memoryview(data)  # slices of bytes would be copied
            data, self.rest = view[:size], view[size:]
        else:
            self.rest = b""
        self.sent += len(data)
        return data

    def _gather(self, min_size: int) -> bytes:
        pieces, size = [self.rest], len(self.rest)
        while self.sources and size < min_size:
            piece = next(self.sources[0], None)
            if piece is None:
                self.sources.popleft()
            else:
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    def has_more(self) -> bool:
        """Return whether there is more content; may read from the sources."""
        if not self.rest and self.sources:
            self.rest = self._gather(1)
        return bool(self.rest)


class BlockedStreams:
    """The responses of all connections of a process that have content, but wait for their clients to accept it.

    Each has a buffer. If there are too many, the one that has waited for the longest time is reset.
    """

    def __init__(self, limit: int = MAX_BLOCKED) -> None:
        """Allow at most ``limit`` of them."""
        self._limit = limit
        self._streams: dict[OutgoingStream, Sender] = {}  # in the order in which they were blocked

    def add(self, outgoing: OutgoingStream, sender: Sender) -> None:
        """Add a stream unless it is one of them, and reset the first if there are too many."""
        self._streams.setdefault(outgoing, sender)
        if len(self._streams) > self._limit:
            first = next(iter(self._streams))
            self._streams.pop(first).reset(first, ErrorCode.ENHANCE_YOUR_CALM)

    def discard(self, outgoing: OutgoingStream) -> None:
        """Remove a stream, which may not be one of them."""
        self._streams.pop(outgoing, None)


class Sender:
    """The responses of a connection, which are sent in turn, one frame each, as far as the windows allow."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        stream_sent: Callable[[int], None],
        flush: Callable[[], None],
        blocked: BlockedStreams,
    ) -> None:
        """Create a sender.

        Args:
            write: Writes frames to a buffer.
            stream_sent: Called for each stream that is completely sent, or reset.
            flush: Sends the buffer.
            blocked: The streams of all connections that wait for their clients.
        """
        self._write = write
        self._stream_sent = stream_sent
        self._flush = flush
        self._blocked = blocked
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._early_increments: dict[int, int] = {}
        """Window updates for streams without a response yet."""
        self._streams: dict[int, OutgoingStream] = {}
        self._ready: deque[OutgoingStream] = deque()
        self.paused = False
        self.sent = 0
        """Bytes of content that were sent on all streams."""

    def open(self, stream: int) -> OutgoingStream:
        """Begin to send on a stream."""
        increment = self._early_increments.pop(stream, 0) if self._early_increments else 0
        outgoing = self._streams[stream] = OutgoingStream(stream, self._initial_window + increment)
        return outgoing

    def drop(self, stream: int) -> None:
        """Send nothing more on a stream."""
        self._early_increments.pop(stream, None)
        outgoing = self._streams.pop(stream, None)
        if outgoing is not None:
            self._release(outgoing)

    def close(self) -> None:
        """Send nothing more on any stream."""
        self.paused = True
        for outgoing in self._streams.values():
            self._release(outgoing)
        self._streams.clear()

    def reset(self, outgoing: OutgoingStream, code: ErrorCode) -> None:
        """End a stream whose client does not accept its content."""
        self._release(outgoing)
        self._reset(outgoing, code)
        self._flush()

    def _release(self, outgoing: OutgoingStream) -> None:
        self._blocked.discard(outgoing)
        outgoing.sources.clear()
        outgoing.rest, outgoing.trailers = b"", None  # it is removed from the queue in its turn

    def add(self, outgoing: OutgoingStream) -> None:
        """Queue a stream that has something to send."""
        if not outgoing.queued:
            outgoing.queued = True
            self._ready.append(outgoing)

    def increase_window(self, increment: int) -> None:
        """Increase the window of the connection."""
        self._window = _check_window(self._window + increment)

    def increase_stream_window(self, stream: int, increment: int) -> None:
        """Increase the window of an open stream, also before its response begins; raises StreamFailed."""
        outgoing = self._streams.get(stream)
        if outgoing is None:
            window = self._initial_window + self._early_increments.get(stream, 0) + increment
        else:
            window = outgoing.window + increment
        if window > MAX_WINDOW:
            raise StreamFailed(stream, ErrorCode.FLOW_CONTROL_ERROR)
        if outgoing is None:
            self._early_increments[stream] = window - self._initial_window
        else:
            outgoing.window = window
            self.add(outgoing)

    def set_initial_window(self, size: int) -> None:
        """Change the initial window of streams, and the windows of open streams by the same difference."""
        difference, self._initial_window = size - self._initial_window, size
        for outgoing in self._streams.values():
            outgoing.window = _check_window(outgoing.window + difference)
            self.add(outgoing)

    def send(self) -> None:
        """Send what can be sent now."""
        blocked: list[OutgoingStream] = []
        while self._ready and not self.paused:
            outgoing = self._ready.popleft()
            outgoing.queued = False
            try:
                has_more = self._send_frame(outgoing)
            except Exception:  # noqa: BLE001 - raised by a source; other streams must not be affected
                _log.exception("response failed")
                self._reset(outgoing, ErrorCode.INTERNAL_ERROR)
                continue
            if has_more and (outgoing.window <= 0 or self._window <= 0):
                self._blocked.add(outgoing, self)
            if has_more and outgoing.stream in self._streams:
                if outgoing.window > 0:  # otherwise the next window update queues it
                    outgoing.queued = True
                    (self._ready if self._window > 0 else blocked).append(outgoing)
            elif not has_more and outgoing.trailers is not None:
                self._end(outgoing, outgoing.trailers)
        self._ready.extend(blocked)

    def _send_frame(self, outgoing: OutgoingStream) -> bool:
        """Send one frame of content if the windows allow it; return whether there is more."""
        room = min(self._window, outgoing.window, MAX_FRAME_SIZE)
        data = outgoing.take(room) if room > 0 else b""
        if data:
            size = len(data)
            self._window -= size
            outgoing.window -= size
            self.sent += size
            self._blocked.discard(outgoing)
            self._write(pack_frame(FrameType.DATA, 0, outgoing.stream, data))
        return outgoing.has_more()

    def _reset(self, outgoing: OutgoingStream, code: ErrorCode) -> None:
        self._write(rst_stream_frame(outgoing.stream, code))
        self._blocked.discard(outgoing)
        del self._streams[outgoing.stream]
        self._stream_sent(outgoing.stream)

    def _end(self, outgoing: OutgoingStream, trailers: bytes) -> None:
        if trailers:
            flags = Flag.END_HEADERS | Flag.END_STREAM
            self._write(pack_frame(FrameType.HEADERS, flags, outgoing.stream, trailers))
        else:
            self._write(pack_frame(FrameType.DATA, Flag.END_STREAM, outgoing.stream))
        self._blocked.discard(outgoing)
        del self._streams[outgoing.stream]
        self._stream_sent(outgoing.stream)


def _check_window(size: int) -> int:
    if size > MAX_WINDOW:
        raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "window is too large")
    return size


WRITE_BUFFER_SIZE = 65_536
"""Bytes that are collected before a write, and that may wait in the transport before sending pauses."""


class WriteBuffer:
    """Frames of a connection that are not written yet."""

    def __init__(self) -> None:
        """Create an empty buffer; it needs a transport before it is flushed."""
        self.transport: asyncio.Transport | None = None
        self.closed = False
        """Whether nothing is written any more."""
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add bytes, and flush the buffer if it is full."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= WRITE_BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the transport."""
        if self._pieces:
            data, self._pieces, self._size = b"".join(self._pieces), [], 0
            if self.transport is not None and not self.closed:
                self.transport.write(data)
