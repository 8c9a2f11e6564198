"""A client's connection: requests come in on its streams, answers go out."""

from __future__ import annotations

import asyncio
import fcntl
import termios
import time
from array import array
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from opmkit.index.server.http2.budget import FrameBudget, PingGuard
from opmkit.index.server.http2.frames import (
    MAX_FRAME_SIZE,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Frame,
    FrameReader,
    Kind,
    Setting,
    StreamFailed,
    goaway,
    pack,
    parse_settings,
    reset,
    settings,
    window_update,
)
from opmkit.index.server.http2.headers import MAX_HEADER_BYTES, HeaderReader, MalformedHeaders, RequestHeaders
from opmkit.index.server.http2.sender import Outgoing, Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.index.server.settings import ConnectionLimits

MAX_STREAMS = 256
"""How many requests of one client are in progress at a time; more have to wait, which clients do by themselves."""
MAX_BUFFERED = 1_048_576
"""Bytes of incomplete requests that one client may have in progress."""
MAX_CONTINUATIONS = 32
"""CONTINUATION frames of one header block."""
MAX_IGNORED_STREAMS = 512
"""Streams that the server reset and whose frames, already under way, are ignored."""
_WINDOW_STEP = MAX_FRAME_SIZE
"""Bytes that are received before the client gets room for as many more."""
_SMALL = 1024
"""DATA frames below this size, but for the last of a request, count as overhead."""
_LINGER = 1.0
"""Seconds without a byte from the client after which a connection is closed that has nothing left to deliver."""
_MAX_DISCARDED = 1_048_576
"""Bytes that are discarded after a connection has failed, before it is closed."""
_PILE = 65_536
"""Bytes that are gathered before they go to the socket, and that may wait there before sending pauses."""


class Request(Protocol):
    """What a stream's request is told of; it sends its answer by the connection."""

    def begin(self) -> None:
        """Answer at once what needs no content, such as a call of an unknown method."""

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
    continuations: int = 0


@dataclass(slots=True)
class Activity:
    """Time since a connection makes no progress, as seen by those who look from time to time."""

    since: float
    _progress: tuple[int, ...] = ()

    def update(self, now: float, progress: tuple[int, ...]) -> bool:
        """Return whether ``progress`` has changed since the last look."""
        changed = progress != self._progress
        if changed:
            self.since, self._progress = now, progress
        return changed


class Connection(asyncio.Protocol):
    """One connection.

    ``accept`` makes what answers a request out of its headers. What is written by a peer that breaks the protocol,
    or does not read what it has asked for, takes no more than a bounded amount of memory.
    """

    def __init__(self, accept: Callable[[Connection, int, RequestHeaders], Request], all_open: set[Connection]) -> None:
        """Be among ``all_open`` as long as it is."""
        self._accept = accept
        self._all_open = all_open
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._sender = Sender(self._write, self._ended)
        self._budget = FrameBudget()
        self._pings = PingGuard()
        self._activity = Activity(time.monotonic())
        self._requests: dict[int, Request] = {}
        self._receiving: dict[int, int] = {}
        """Streams that a request is still received on, with the bytes for which the client has got no room again."""
        self._unreturned = 0
        """The same for the connection."""
        self._expected: dict[int, int] = {}
        """Bytes that are still to come on streams with a content length."""
        self._ignored: dict[int, None] = {}
        self._skipped: deque[range] = deque(maxlen=32)
        """Ranges of streams that the client passed over, which can't be opened any more."""
        self._block: _Block | None = None
        self._last = 0
        self._answered = self._discarded = 0
        self._greeted = self._finishing = self._closing = False
        self._left = 0.0
        self._pile: list[bytes] = []
        self._piled = 0
        self.peer = ""
        self.working = 0
        """How many answers are being made in threads, also for requests that were given up."""
        self.buffered = 0
        """Bytes of requests that wait for the rest of a message, or for an answer to those before them."""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._all_open.add(self)
        self._transport.set_write_buffer_limits(high=_PILE)
        self.peer = _address(transport.get_extra_info("peername"))
        limits = {Setting.MAX_CONCURRENT_STREAMS: MAX_STREAMS, Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES}
        self._write(settings(limits))
        self.flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """Give up what is in progress."""
        self._all_open.discard(self)
        self._sender.paused = self._closing = True
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.abandoned()

    def data_received(self, data: bytes) -> None:
        """Take frames, and send what can be sent then."""
        if self._closing:
            self._discard(len(data))
            return
        try:
            for frame in self._frames.read(data):
                try:
                    self._take(frame)
                except StreamFailed as error:
                    self._fail_stream(error.stream, error.code)
                if self._closing:
                    return
        except ConnectionFailed as error:
            self._write(goaway(self._last, error.code, str(error)))
            self._leave()
            return
        self.flush()

    def pause_writing(self) -> None:
        """Send, and so take, nothing more from a client that does not read."""
        self._sender.paused = True
        if not self._closing:
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
        self._sender.drop(stream)
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

    def lingers(self) -> bool:
        """Return whether the client has received everything, and had time to close the connection."""
        return self._closing and not self._undelivered() and time.monotonic() - self._left > _LINGER

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def check(self, now: float, limits: ConnectionLimits) -> None:
        """Close the connection if it was without progress for too long; called from time to time."""
        progress: tuple[int, ...] = (self._last, self._answered, self._sender.sent, self._unreturned, self.working)
        if self._closing:
            progress = (self._discarded, self._undelivered())
        if self._activity.update(now, progress):
            return
        idle = now - self._activity.since
        if self._closing or not self._greeted:
            if idle > limits.greeting:
                self.abort()
        elif self._finishing:
            if idle > limits.idle + limits.greeting:
                self._leave()
        elif idle > limits.idle:
            self._write(goaway(self._last, ErrorCode.NO_ERROR, "idle"))
            self._finishing = True
            self._push()

    # Frames.

    def _take(self, frame: Frame) -> None:
        if not self._greeted and frame.kind != Kind.SETTINGS:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "the first frame must be settings")
        if (self._block is None) == (frame.kind == Kind.CONTINUATION):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers that are not continued")
        take = _TAKE.get(frame.kind)
        if take is None:
            self._spend()
        else:
            take(self, frame)

    def _spend(self) -> None:
        """Count a frame that neither begins a call nor carries a message."""
        self._budget.spend(self._answered, self._sender.sent)

    def _take_settings(self, frame: Frame) -> None:
        self._greeted = True
        self._spend()
        if frame.flags & Flag.ACK:
            return
        values = parse_settings(frame.payload)
        if Setting.INITIAL_WINDOW_SIZE in values:
            self._sender.set_initial(values[Setting.INITIAL_WINDOW_SIZE])
        self._write(pack(Kind.SETTINGS, Flag.ACK, 0))

    def _take_ping(self, frame: Frame) -> None:
        self._spend()
        if not frame.flags & Flag.ACK:
            self._pings.count(self._answered, self._sender.sent)
            self._write(pack(Kind.PING, Flag.ACK, 0, frame.payload))

    def _take_priority(self, frame: Frame) -> None:
        self._spend()
        if frame.number() == frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")

    def _take_window_update(self, frame: Frame) -> None:
        self._spend()
        size = frame.number()
        if not size:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a window update of nothing")
        if not frame.stream:
            self._sender.give(size)
            return
        self._check_opened(frame.stream)
        if frame.stream in self._requests:
            self._sender.give_stream(frame.stream, size)

    def _take_headers(self, frame: Frame) -> None:
        self._begin(_Block(frame.stream, bool(frame.flags & Flag.END_STREAM), frame.content()), frame)

    def _take_continuation(self, frame: Frame) -> None:
        block = self._block
        if block is None or block.stream != frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "headers that are not continued")
        self._spend()
        if block.continuations == MAX_CONTINUATIONS:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers in too many frames")
        self._begin(_Block(block.stream, block.ended, block.data + frame.payload, block.continuations + 1), frame)

    def _begin(self, block: _Block, frame: Frame) -> None:
        """Keep headers until they are complete, and then begin with the request."""
        if len(block.data) > MAX_HEADER_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers that are too large")
        if not frame.flags & Flag.END_HEADERS:
            self._block = block
            return
        self._block = None
        if not block.stream % 2:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that is not a client's")
        if block.stream <= self._last:
            self._take_late_headers(block)
        elif self._finishing or len(self._requests) + self.working >= MAX_STREAMS:
            self._headers.skip(block.data)
            if not self._finishing:
                self._open_stream(block.stream)
            self._ignore(block)
            raise StreamFailed(block.stream, ErrorCode.REFUSED_STREAM)
        else:
            self._open_stream(block.stream)
            self._accept_request(block)

    def _open_stream(self, stream: int) -> None:
        """Note that a stream is opened, and those before it can't be any more."""
        if stream - self._last > 2:
            self._skipped.append(range(self._last + 1, stream))
        self._last = stream

    def _accept_request(self, block: _Block) -> None:
        try:
            headers = self._headers.read(block.data)
            if block.ended and headers.content_length:
                raise MalformedHeaders("content length of a request without content")
        except MalformedHeaders as error:
            self._ignore(block)
            raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR) from error
        if not block.ended:
            self._receiving[block.stream] = 0
            if headers.content_length is not None:
                self._expected[block.stream] = headers.content_length
        request = self._requests[block.stream] = self._accept(self, block.stream, headers)
        request.begin()
        if block.ended:
            self._received(block.stream, b"", ended=True)

    def _take_late_headers(self, block: _Block) -> None:
        """Take headers on a stream that was opened before: trailers, or what must not be."""
        if block.stream in self._receiving:
            try:
                self._headers.read_trailers(block.data)
            except MalformedHeaders as error:
                raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR) from error
            if not block.ended or self._expected.get(block.stream):
                raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR)
            self._received(block.stream, b"", ended=True)
            return
        self._spend()
        self._headers.skip(block.data)
        if block.stream in self._requests:
            raise StreamFailed(block.stream, ErrorCode.STREAM_CLOSED)
        if block.stream not in self._ignored:
            skipped = any(block.stream in streams for streams in self._skipped)
            code = ErrorCode.PROTOCOL_ERROR if skipped else ErrorCode.STREAM_CLOSED
            raise ConnectionFailed(code, "headers on a closed stream")

    def _ignore(self, block: _Block) -> None:
        if not block.ended:
            self._ignore_stream(block.stream)

    def _ignore_stream(self, stream: int) -> None:
        """Ignore what the client sends on a stream before it gets to know of the stream's end."""
        self._ignored[stream] = None
        if len(self._ignored) > MAX_IGNORED_STREAMS:
            del self._ignored[next(iter(self._ignored))]

    def _take_data(self, frame: Frame) -> None:
        stream, size = frame.stream, len(frame.payload)
        ended = bool(frame.flags & Flag.END_STREAM)
        content = frame.content() if frame.flags & Flag.PADDED else frame.payload
        self._unreturned += size
        if self._unreturned >= _WINDOW_STEP:
            self._write(window_update(0, self._unreturned))
            self._unreturned = 0
        if size < _SMALL and not ended:
            self._spend()
        if stream not in self._receiving:
            self._take_late_data(stream, ended=ended)
            return
        if stream in self._expected:
            self._count_content(stream, len(content), ended=ended)
        if not ended:
            self._return_room(stream, size)
        self._received(stream, content, ended=ended)

    def _return_room(self, stream: int, size: int) -> None:
        unreturned = self._receiving[stream] + size
        if unreturned >= _WINDOW_STEP:
            self._write(window_update(stream, unreturned))
            unreturned = 0
        self._receiving[stream] = unreturned

    def _count_content(self, stream: int, size: int, *, ended: bool) -> None:
        """Compare the content with the length that the headers gave; raises StreamFailed."""
        self._expected[stream] -= size
        left = self._expected[stream]
        if left < 0 or (ended and left):
            raise StreamFailed(stream, ErrorCode.PROTOCOL_ERROR)

    def _take_late_data(self, stream: int, *, ended: bool) -> None:
        """Take content for a stream that isn't open for it."""
        self._check_opened(stream)
        self._spend()
        if stream > self._last:
            return  # the connection is finishing, and this stream was refused
        if stream not in self._ignored:
            raise StreamFailed(stream, ErrorCode.STREAM_CLOSED)
        if ended:
            del self._ignored[stream]

    def _received(self, stream: int, data: bytes, *, ended: bool) -> None:
        if ended:
            self._receiving.pop(stream, None)
            self._expected.pop(stream, None)
        request = self._requests.get(stream)
        if request is not None:
            request.received(data, ended=ended)

    def _take_reset(self, frame: Frame) -> None:
        self._check_opened(frame.stream)
        self._spend()
        self._ignored.pop(frame.stream, None)
        self._drop(frame.stream)
        self._close_if_idle()

    def _take_push(self, _frame: Frame) -> None:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "clients don't push")

    def _check_opened(self, stream: int) -> None:
        """Raise ConnectionFailed for a stream that was not opened."""
        if not stream % 2 or (stream > self._last and not self._finishing):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that was not opened")

    def _fail_stream(self, stream: int, code: ErrorCode) -> None:
        """Reset a stream, and give up its call."""
        self._spend()
        self._write(reset(stream, code))
        if stream in self._receiving:
            self._ignore_stream(stream)
        self._drop(stream)
        self._close_if_idle()

    def _drop(self, stream: int) -> None:
        """Forget a stream whose answer nobody waits for."""
        self._sender.drop(stream)
        self._receiving.pop(stream, None)
        self._expected.pop(stream, None)
        request = self._requests.pop(stream, None)
        if request is not None:
            request.abandoned()

    # Bytes.

    def _ended(self, stream: int) -> None:
        """Note that a stream is answered."""
        request = self._requests.pop(stream, None)
        if request is not None:
            self._answered += 1
            request.answered()
        if stream in self._receiving:
            del self._receiving[stream]
            self._expected.pop(stream, None)
            self._ignore_stream(stream)
            self._write(reset(stream, ErrorCode.NO_ERROR))
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._finishing and not self._requests and not self._closing:
            self._leave()

    def _leave(self) -> None:
        """Send nothing more, and discard what comes until the client has read all, or `check` puts an end to it.

        If the connection was closed at once, what the client has sent meanwhile would keep it from reading the rest.
        """
        self._push()
        self._closing = True
        self._left = time.monotonic()
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def _undelivered(self) -> int:
        """Return the number of bytes that the client's system has not acknowledged.

        The kernel discards them when the client sends anything to a connection that the server has closed.
        """
        waiting = self._transport.get_write_buffer_size()
        queued = array("i", [0])
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):  # systems other than Linux support this request for terminals only
                fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, queued)
        return waiting + queued[0]

    def _discard(self, size: int) -> None:
        self._left = time.monotonic()
        self._discarded += size
        if self._discarded > _MAX_DISCARDED:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        self._pile.append(data)
        self._piled += len(data)
        if self._piled >= _PILE:
            self._push()

    def _push(self) -> None:
        if self._pile:
            data, self._pile, self._piled = b"".join(self._pile), [], 0
            if not self._closing:
                self._transport.write(data)


_TAKE: Mapping[int, Callable[[Connection, Frame], None]] = {
    Kind.DATA: Connection._take_data,
    Kind.HEADERS: Connection._take_headers,
    Kind.PRIORITY: Connection._take_priority,
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
