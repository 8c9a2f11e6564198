"""Answers on their way to a client: streams that share a connection, each with the room that the client gives it."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.server.http2.frames import (
    DEFAULT_WINDOW,
    MAX_FRAME_SIZE,
    MAX_WINDOW,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Kind,
    StreamFailed,
    pack,
    reset,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Outgoing:
    """What is still to be sent on a stream: content, taken when there is room for it, and then trailers.

    Empty ``trailers`` end the stream with its content.
    """

    stream: int
    window: int
    sources: deque[Iterator[bytes]] = field(default_factory=deque)
    rest: bytes | memoryview = b""
    sent: int = 0
    trailers: bytes | None = None
    queued: bool = False

    def take(self, most: int) -> bytes | memoryview:
        """The next bytes, at most so many; none where there are no more for now."""
        data: bytes | memoryview = self.rest
        if len(data) < most and self.sources:
            data = self._gather(most)
        if len(data) > most:
            view = memoryview(data)
            data, self.rest = view[:most], view[most:]  # copies neither, however long the rest is
        else:
            self.rest = b""
        self.sent += len(data)
        return data

    def _gather(self, least: int) -> bytes:
        gathered, size = [self.rest], len(self.rest)
        while self.sources and size < least:
            piece = next(self.sources[0], None)
            if piece is None:
                self.sources.popleft()
            else:
                gathered.append(piece)
                size += len(piece)
        return b"".join(gathered)

    def has_more(self) -> bool:
        """Return whether there is content left, which may need one more piece from the sources."""
        if not self.rest and self.sources:
            self.rest = self._gather(1)
        return bool(self.rest)


class Sender:
    """Sends the streams of a connection in turn, one frame each, as far as the client has room for it."""

    def __init__(self, write: Callable[[bytes], None], ended: Callable[[int], None]) -> None:
        """Hand bytes to ``write``, and tell ``ended`` of every stream that is sent to its end."""
        self._write = write
        self._ended = ended
        self._window = DEFAULT_WINDOW
        self._initial = DEFAULT_WINDOW
        self._early: dict[int, int] = {}
        self._streams: dict[int, Outgoing] = {}
        self._ready: deque[Outgoing] = deque()
        self.paused = False
        self.sent = 0
        """Bytes of content that were sent on all streams."""

    def open(self, stream: int) -> Outgoing:
        """Begin to send on a stream."""
        early = self._early.pop(stream, 0) if self._early else 0
        outgoing = self._streams[stream] = Outgoing(stream, self._initial + early)
        return outgoing

    def drop(self, stream: int) -> None:
        """Send nothing more on a stream."""
        self._early.pop(stream, None)
        outgoing = self._streams.pop(stream, None)
        if outgoing is not None:
            outgoing.sources.clear()
            outgoing.rest, outgoing.trailers = b"", None  # it leaves the queue at its turn

    def add(self, outgoing: Outgoing) -> None:
        """Take notice of what is to be sent on a stream now."""
        if not outgoing.queued:
            outgoing.queued = True
            self._ready.append(outgoing)

    def give(self, size: int) -> None:
        """Let the client have room for so many bytes more, on all streams together."""
        self._window = _window(self._window + size)

    def give_stream(self, stream: int, size: int) -> None:
        """Let the client have room for so many bytes more on a stream that is open; raises StreamFailed.

        A client may give room before the answer begins.
        """
        outgoing = self._streams.get(stream)
        window = (self._initial + self._early.get(stream, 0) if outgoing is None else outgoing.window) + size
        if window > MAX_WINDOW:
            raise StreamFailed(stream, ErrorCode.FLOW_CONTROL_ERROR)
        if outgoing is None:
            self._early[stream] = window - self._initial
        else:
            outgoing.window = window
            self.add(outgoing)

    def set_initial(self, size: int) -> None:
        """Change the room that every stream has at first, also that of those which have begun."""
        change, self._initial = size - self._initial, size
        for outgoing in self._streams.values():
            outgoing.window = _window(outgoing.window + change)
            self.add(outgoing)

    def send(self) -> None:
        """Send what can be sent now."""
        waiting: list[Outgoing] = []
        while self._ready and not self.paused:
            outgoing = self._ready.popleft()
            outgoing.queued = False
            try:
                more = self._send_frame(outgoing)
            except Exception:  # noqa: BLE001 - what is sent comes from elsewhere, and one stream is no other's concern
                _log.exception("an answer breaks off")
                self._break(outgoing)
                continue
            if more:
                if outgoing.window > 0:  # else it comes back when the client gives it room
                    outgoing.queued = True
                    (self._ready if self._window > 0 else waiting).append(outgoing)
            elif outgoing.trailers is not None:
                self._end(outgoing, outgoing.trailers)
        self._ready.extend(waiting)

    def _send_frame(self, outgoing: Outgoing) -> bool:
        """Send one frame of content if there is room for it; return whether there is more."""
        room = min(self._window, outgoing.window, MAX_FRAME_SIZE)
        data = outgoing.take(room) if room > 0 else b""
        if data:
            size = len(data)
            self._window -= size
            outgoing.window -= size
            self.sent += size
            self._write(pack(Kind.DATA, 0, outgoing.stream, data))
        return outgoing.has_more()

    def _break(self, outgoing: Outgoing) -> None:
        self._write(reset(outgoing.stream, ErrorCode.INTERNAL_ERROR))
        del self._streams[outgoing.stream]
        self._ended(outgoing.stream)

    def _end(self, outgoing: Outgoing, trailers: bytes) -> None:
        if trailers:
            self._write(pack(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, outgoing.stream, trailers))
        else:
            self._write(pack(Kind.DATA, Flag.END_STREAM, outgoing.stream))
        del self._streams[outgoing.stream]
        self._ended(outgoing.stream)


def _window(size: int) -> int:
    if size > MAX_WINDOW:
        raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
    return size
