"""A client's connection: requests come in on its streams, answers go out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from opmkit.index.server.http2.frames import (
    LARGEST,
    MOST_WINDOW,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Frame,
    FrameReader,
    Kind,
    Setting,
    goaway,
    pack,
    reset,
    settings,
    window_update,
)
from opmkit.index.server.http2.headers import MOST_BYTES, HeaderReader
from opmkit.index.server.http2.streams import Outgoing, Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_STREAMS = 256
"""How many requests of one client are in progress at a time; more have to wait, which clients do by themselves."""
_PILE = 65_536
"""Bytes that are gathered before they go to the socket, and that may wait there before sending pauses."""


class Request(Protocol):
    """What a stream's request is told of; it sends its answer by the connection."""

    def received(self, data: bytes, *, ended: bool) -> None:
        """Take more of the request's content, and note whether this was the last of it."""

    def answered(self) -> None:
        """Note that the answer has gone out."""

    def abandoned(self) -> None:
        """Note that nobody waits for the answer any more."""


@dataclass(slots=True)
class _Block:
    """Headers that come in several frames."""

    stream: int
    ended: bool
    data: bytes


class Connection(asyncio.Protocol):
    """One connection.

    ``accept`` makes what answers a request out of its headers. What is written by a peer that breaks the protocol,
    or does not read what it has asked for, takes no more than a bounded amount of memory.
    """

    def __init__(
        self, accept: Callable[[Connection, int, Mapping[bytes, bytes]], Request], all_open: set[Connection]
    ) -> None:
        """Be among ``all_open`` as long as it is."""
        self._accept = accept
        self._all_open = all_open
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._sender = Sender(self._write, self._ended)
        self._requests: dict[int, Request] = {}
        self._receiving: set[int] = set()
        self._block: _Block | None = None
        self._last = 0
        self._greeted = self._finishing = False
        self._pile: list[bytes] = []
        self._piled = 0
        self.peer = ""
        self.working = 0
        """How many answers are being made in threads, also for requests that were given up."""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._all_open.add(self)
        self._transport.set_write_buffer_limits(high=_PILE)
        self.peer = _address(transport.get_extra_info("peername"))
        limits = {Setting.MAX_CONCURRENT_STREAMS: MOST_STREAMS, Setting.MAX_HEADER_LIST_SIZE: MOST_BYTES}
        self._write(settings(limits))
        self.flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """Give up what is in progress."""
        self._all_open.discard(self)
        self._sender.paused = True
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.abandoned()

    def data_received(self, data: bytes) -> None:
        """Take frames, and send what can be sent then."""
        try:
            for frame in self._frames.read(data):
                self._take(frame)
        except ConnectionFailed as error:
            self._write(goaway(self._last, error.code, str(error)))
            self._push()
            self._transport.close()
            return
        self.flush()

    def pause_writing(self) -> None:
        """Send, and so take, nothing more from a client that does not read."""
        self._sender.paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._sender.paused = False
        self._transport.resume_reading()
        self.flush()

    # What requests call.

    def open(self, stream: int, headers: bytes) -> Outgoing:
        """Begin the answer on a stream by its headers; its content is added by :meth:`send`."""
        self._write(pack(Kind.HEADERS, Flag.END_HEADERS, stream, headers))
        return self._sender.open(stream)

    def send(self, outgoing: Outgoing) -> None:
        """Send what was added to an answer."""
        self._sender.add(outgoing)

    def refuse(self, stream: int, headers: bytes) -> None:
        """Answer a stream by headers alone."""
        self._write(pack(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream, headers))
        self._ended(stream)

    def flush(self) -> None:
        """Send what can be sent now."""
        self._sender.send()
        self._push()

    # What the server calls.

    def finish(self) -> None:
        """Take no further requests, and close the connection when those in progress are answered."""
        self._finishing = True
        self._write(goaway(self._last, ErrorCode.NO_ERROR))
        self._push()
        self._close_if_idle()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # Frames.

    def _take(self, frame: Frame) -> None:
        if not self._greeted and frame.kind != Kind.SETTINGS:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "the first frame must be settings")
        if (self._block is None) == (frame.kind == Kind.CONTINUATION):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers that are not continued")
        take = _TAKE.get(frame.kind)
        if take is not None:
            take(self, frame)

    def _take_settings(self, frame: Frame) -> None:
        self._greeted = True
        if frame.flags & Flag.ACK:
            return
        for position in range(0, len(frame.payload), 6):
            key = int.from_bytes(frame.payload[position : position + 2], "big")
            value = int.from_bytes(frame.payload[position + 2 : position + 6], "big")
            if key == Setting.INITIAL_WINDOW_SIZE:
                if value > MOST_WINDOW:
                    raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
                self._sender.set_initial(value)
            elif key == Setting.MAX_FRAME_SIZE and not LARGEST <= value < 2**24:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a frame size that can't be")
        self._write(pack(Kind.SETTINGS, Flag.ACK, 0))

    def _take_ping(self, frame: Frame) -> None:
        if not frame.flags & Flag.ACK:
            self._write(pack(Kind.PING, Flag.ACK, 0, frame.payload))

    def _take_window_update(self, frame: Frame) -> None:
        self._known(frame)
        if not frame.number():
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a window update of nothing")
        self._sender.give(frame.stream, frame.number())

    def _take_headers(self, frame: Frame) -> None:
        self._begin(_Block(frame.stream, bool(frame.flags & Flag.END_STREAM), frame.content()), frame)

    def _take_continuation(self, frame: Frame) -> None:
        block = self._block
        if block is None or block.stream != frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers that are not continued")
        self._begin(_Block(block.stream, block.ended, block.data + frame.payload), frame)

    def _begin(self, block: _Block, frame: Frame) -> None:
        """Keep headers until they are complete, and then begin with the request."""
        if len(block.data) > MOST_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers that are too large")
        if not frame.flags & Flag.END_HEADERS:
            self._block = block
            return
        self._block = None
        headers = self._headers.read(block.data)
        if block.stream <= self._last:
            self._take_trailers(block)
            return
        if not block.stream % 2:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that is not a client's")
        if self._finishing or len(self._requests) + self.working >= MOST_STREAMS:
            self._write(reset(block.stream, ErrorCode.REFUSED_STREAM))
            self._last = block.stream if not self._finishing else self._last
            return
        self._last = block.stream
        self._receiving.add(block.stream)
        self._requests[block.stream] = self._accept(self, block.stream, headers)
        if block.ended:
            self._received(block.stream, b"", ended=True)

    def _take_trailers(self, block: _Block) -> None:
        if block.stream in self._receiving:
            if not block.ended:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers in the middle of a request")
            self._received(block.stream, b"", ended=True)

    def _take_data(self, frame: Frame) -> None:
        self._known(frame)
        if frame.payload:
            self._write(window_update(0, len(frame.payload)))
        if frame.stream not in self._receiving:
            return  # it was answered or given up before all of it was here
        ended = bool(frame.flags & Flag.END_STREAM)
        if frame.payload and not ended:
            self._write(window_update(frame.stream, len(frame.payload)))
        self._received(frame.stream, frame.content(), ended=ended)

    def _received(self, stream: int, data: bytes, *, ended: bool) -> None:
        if ended:
            self._receiving.discard(stream)
        request = self._requests.get(stream)
        if request is not None:
            request.received(data, ended=ended)

    def _take_reset(self, frame: Frame) -> None:
        self._known(frame)
        self._sender.drop(frame.stream)
        self._receiving.discard(frame.stream)
        request = self._requests.pop(frame.stream, None)
        if request is not None:
            request.abandoned()
        self._close_if_idle()

    def _take_push(self, _frame: Frame) -> None:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "clients don't push")

    def _known(self, frame: Frame) -> None:
        if frame.stream > self._last and not self._finishing:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that was not opened")

    # Bytes.

    def _ended(self, stream: int) -> None:
        """Note that a stream is answered."""
        request = self._requests.pop(stream, None)
        if request is not None:
            request.answered()
        if stream in self._receiving:
            self._receiving.discard(stream)
            self._write(reset(stream, ErrorCode.NO_ERROR))
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._finishing and not self._requests:
            self._push()
            self._transport.close()

    def _write(self, data: bytes) -> None:
        self._pile.append(data)
        self._piled += len(data)
        if self._piled >= _PILE:
            self._push()

    def _push(self) -> None:
        if self._pile:
            data, self._pile, self._piled = b"".join(self._pile), [], 0
            self._transport.write(data)


_TAKE: Mapping[int, Callable[[Connection, Frame], None]] = {
    Kind.DATA: Connection._take_data,
    Kind.HEADERS: Connection._take_headers,
    Kind.RST_STREAM: Connection._take_reset,
    Kind.SETTINGS: Connection._take_settings,
    Kind.PUSH_PROMISE: Connection._take_push,
    Kind.PING: Connection._take_ping,
    Kind.WINDOW_UPDATE: Connection._take_window_update,
    Kind.CONTINUATION: Connection._take_continuation,
}


def _address(name: object) -> str:
    """Where a client is, as host and port."""
    if not isinstance(name, tuple):
        return ""
    host = str(name[0]).removeprefix("::ffff:")
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"
