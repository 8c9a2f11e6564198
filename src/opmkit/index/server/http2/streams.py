"""Answers on their way to a client: streams that share a connection, each with the room that the client gives it."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.server.http2.frames import (
    DEFAULT_WINDOW,
    LARGEST,
    MOST_WINDOW,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Kind,
    pack,
    reset,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Outgoing:
    """What is still to be sent on a stream: content, taken when there is room for it, and then trailers."""

    stream: int
    window: int
    sources: deque[Iterator[bytes]] = field(default_factory=deque)
    rest: bytes = b""
    sent: int = 0
    trailers: bytes | None = None

    def take(self, most: int) -> bytes:
        """The next bytes, at most so many; none where there are no more for now."""
        gathered, size = [self.rest], len(self.rest)
        while self.sources and size < most:
            piece = next(self.sources[0], None)
            if piece is None:
                self.sources.popleft()
            else:
                gathered.append(piece)
                size += len(piece)
        data = b"".join(gathered)
        self.rest = data[most:]
        taken = data[:most]
        self.sent += len(taken)
        return taken


class Sender:
    """Sends the streams of a connection in turn, one frame each, as far as the client has room for it."""

    def __init__(self, write: Callable[[bytes], None], ended: Callable[[int], None]) -> None:
        """Hand bytes to ``write``, and tell ``ended`` of every stream that is sent to its end."""
        self._write = write
        self._ended = ended
        self._window = DEFAULT_WINDOW
        self._initial = DEFAULT_WINDOW
        self._streams: dict[int, Outgoing] = {}
        self._ready: deque[Outgoing] = deque()
        self.paused = False

    def open(self, stream: int) -> Outgoing:
        """Begin to send on a stream."""
        outgoing = self._streams[stream] = Outgoing(stream, self._initial)
        return outgoing

    def drop(self, stream: int) -> None:
        """Send nothing more on a stream."""
        outgoing = self._streams.pop(stream, None)
        if outgoing is not None and outgoing in self._ready:
            self._ready.remove(outgoing)

    def add(self, outgoing: Outgoing) -> None:
        """Take notice of what is to be sent on a stream now."""
        if outgoing not in self._ready:
            self._ready.append(outgoing)

    def give(self, stream: int, size: int) -> None:
        """Let the client have room for so many bytes more, on a stream or, for 0, on all."""
        if not stream:
            self._window = _window(self._window + size)
        elif stream in self._streams:
            outgoing = self._streams[stream]
            outgoing.window = _window(outgoing.window + size)
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
            room = min(self._window, outgoing.window, LARGEST)
            try:
                data = outgoing.take(room) if room > 0 else b""
            except Exception:  # noqa: BLE001 - what is sent comes from elsewhere, and one stream is no other's concern
                _log.exception("an answer breaks off")
                self._break(outgoing)
                continue
            if data:
                self._window -= len(data)
                outgoing.window -= len(data)
                self._write(pack(Kind.DATA, 0, outgoing.stream, data))
            if outgoing.rest or outgoing.sources:
                if outgoing.window > 0:  # else it comes back when the client gives it room
                    (self._ready if self._window > 0 else waiting).append(outgoing)
            elif outgoing.trailers is not None:
                self._end(outgoing, outgoing.trailers)
        self._ready.extend(waiting)

    def _break(self, outgoing: Outgoing) -> None:
        self._write(reset(outgoing.stream, ErrorCode.INTERNAL_ERROR))
        del self._streams[outgoing.stream]
        self._ended(outgoing.stream)

    def _end(self, outgoing: Outgoing, trailers: bytes) -> None:
        self._write(pack(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, outgoing.stream, trailers))
        del self._streams[outgoing.stream]
        self._ended(outgoing.stream)


def _window(size: int) -> int:
    if size > MOST_WINDOW:
        raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
    return size
