"""Server side of an HTTP/2 connection (RFC 9113)."""

from __future__ import annotations

import asyncio
import fcntl
import termios
import time
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from opmkit.server.acceptor import NEW_SECONDS, Use
from opmkit.server.http2.frames import (
    MAX_FRAME_SIZE,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Frame,
    FrameReader,
    FrameType,
    SettingsParameter,
    StreamFailed,
    goaway_frame,
    pack_frame,
    parse_settings,
    rst_stream_frame,
    settings_frame,
    window_update_frame,
)
from opmkit.server.http2.headers import (
    MAX_HEADER_BYTES,
    HeaderBlock,
    HeaderBlocks,
    HeaderReader,
    MalformedHeaders,
    RequestHeaders,
)
from opmkit.server.http2.inbound import FrameBudget, InboundStreams, PingGuard
from opmkit.server.http2.sender import WRITE_BUFFER_SIZE, BlockedStreams, OutgoingStream, Sender, WriteBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.server.settings import ConnectionLimits


MAX_STREAMS = 256
"""Requests of one client in progress; clients delay further ones."""
_WINDOW_STEP = MAX_FRAME_SIZE
"""Bytes that are received before the flow-control window of the connection is increased again."""
_SMALL_DATA = 1024
"""DATA frames below this size count as overhead, except for the last of a request."""


class Connection(asyncio.Protocol):
    """A connection of a client.

    Memory is bounded, also if the client violates the protocol or does not read the responses that it requests.
    """

    def __init__(
        self,
        accept: Callable[[Connection, int, RequestHeaders], RequestHandler],
        connections: set[Connection],
        blocked: BlockedStreams | None = None,
    ) -> None:
        """Create a connection.

        Args:
            accept: Returns the handler of a new request.
            connections: All open connections, to which this one is added.
            blocked: The responses of all connections that wait for their clients, by default those of this one.
        """
        self._accept = accept
        self._connections = connections
        self._frames = FrameReader()
        self._blocks = HeaderBlocks()
        self._headers = HeaderReader()
        self._inbound = InboundStreams()
        self._output = WriteBuffer()
        self._write = self._output.write
        self._sender = Sender(self._write, self._response_sent, self._output.flush, blocked or BlockedStreams())
        self._budget = FrameBudget()
        self._pings = PingGuard()
        self._last_received = time.monotonic()
        self._activity = Activity(self._last_received)
        self._linger: LingeringClose | None = None
        self._requests: dict[int, RequestHandler] = {}
        self._unreturned = 0
        """Bytes that the flow-control window of the connection was not increased by yet."""
        self._responses = 0
        self._greeted = self._draining = False
        self.peer = ""
        self.computing = 0
        """Responses that are computed in threads, including those of cancelled requests."""
        self.buffered = 0
        """Bytes of requests that wait for the rest of a message, or for an earlier response."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the server's settings."""
        self._transport = self._output.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_SIZE)
        self.peer = format_address(transport.get_extra_info("peername"))
        limits = {
            SettingsParameter.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingsParameter.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
        }
        self._write(settings_frame(limits))
        self.flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel the requests in progress."""
        self._connections.discard(self)
        self._sender.close()
        self._output.closed = True
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.cancelled()

    def data_received(self, data: bytes) -> None:
        """Process the received frames, and send what can be sent then."""
        self._last_received = time.monotonic()
        if self._linger is not None:
            self._linger.discard(len(data))
            return
        try:
            for frame in self._frames.read(data):
                try:
                    self._process(frame)
                except StreamFailed as error:
                    self._fail_stream(error.stream, error.code)
                if self._linger is not None:
                    return
        except ConnectionFailed as error:
            self._write(goaway_frame(self._inbound.last, error.code, str(error)))
            self._close()
            return
        self.flush()

    def pause_writing(self) -> None:
        """Stop sending to, and receiving from, a client that does not read."""
        self._sender.paused = True
        if self._linger is None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue."""
        self._sender.paused = False
        self._transport.resume_reading()
        self.flush()

    # Called by request handlers.

    def start_response(self, stream: int, headers: bytes) -> OutgoingStream:
        """Send the headers of a response; its content is added to the result, and sent by `send`."""
        self._write(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, headers))
        return self._sender.open(stream)

    def send(self, outgoing: OutgoingStream) -> None:
        """Send what was added to a response."""
        self._sender.add(outgoing)

    def send_headers_only(self, stream: int, headers: bytes) -> None:
        """Send a response that consists of headers."""
        self._sender.drop(stream)
        self._write(pack_frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream, headers))
        self._response_sent(stream)

    def flush(self) -> None:
        """Send what can be sent now."""
        self._sender.send()
        self._output.flush()

    # Called by the server.

    def drain(self) -> None:
        """Refuse further requests, and close the connection after the responses in progress."""
        self._draining = True
        self._write(goaway_frame(self._inbound.last, ErrorCode.NO_ERROR))
        self._output.flush()
        self._close_if_drained()

    @property
    def is_idle(self) -> bool:
        """Whether no call is in progress."""
        return not self._requests and not self.computing

    def use(self, now: float) -> tuple[Use, float]:
        """Return how much the idle connection is in use, and since when."""
        if self._inbound.last:
            return Use.USED, self._last_received
        if self._greeted:
            return Use.UNUSED, self._last_received
        is_new = now - self._last_received < NEW_SECONDS
        return Use.NEW if is_new else Use.SILENT, self._last_received

    def give_way(self) -> None:
        """Close the idle connection at once, since another needs its place."""
        self._connections.discard(self)
        self._write(goaway_frame(self._inbound.last, ErrorCode.NO_ERROR, "too many connections"))
        self._output.flush()
        self._output.closed = True
        if self._transport.get_write_buffer_size():  # the client does not read
            self._transport.abort()
        else:
            self._transport.close()

    def is_delivered(self) -> bool:
        """Return whether the connection is closing, and the client has received everything."""
        return self._linger is not None and self._linger.is_complete()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def enforce_timeouts(self, now: float, limits: ConnectionLimits) -> None:
        """Close the connection if it made no progress for too long; the server calls this regularly."""
        if self._linger is not None:
            progress = self._linger.progress()
        else:
            progress = (self._inbound.last, self._responses, self._sender.sent, self._unreturned, self.computing)
        if self._activity.update(now, progress):
            return
        idle = now - self._activity.since
        if self._linger is not None or not self._greeted:
            if idle > limits.greeting:
                self.abort()
        elif self._draining:
            if idle > limits.idle + limits.greeting:
                self._close()
        elif idle > limits.idle:
            self._write(goaway_frame(self._inbound.last, ErrorCode.NO_ERROR, "idle"))
            self._draining = True
            self._output.flush()

    # Frames.

    def _process(self, frame: Frame) -> None:
        if not self._greeted and frame.type != FrameType.SETTINGS:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        if (self._blocks.incomplete is None) == (frame.type == FrameType.CONTINUATION):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "incomplete headers, or unexpected CONTINUATION frame")
        process = _PROCESS.get(frame.type)
        if process is None:
            self._count_overhead()
        else:
            process(self, frame)

    def _count_overhead(self) -> None:
        """Count a frame that neither begins a call nor carries a message."""
        self._budget.spend(self._responses, self._sender.sent)

    def _process_settings(self, frame: Frame) -> None:
        self._greeted = True
        self._count_overhead()
        if frame.flags & Flag.ACK:
            return
        values = parse_settings(frame.payload)
        if SettingsParameter.INITIAL_WINDOW_SIZE in values:
            self._sender.set_initial_window(values[SettingsParameter.INITIAL_WINDOW_SIZE])
        self._write(pack_frame(FrameType.SETTINGS, Flag.ACK, 0))

    def _process_ping(self, frame: Frame) -> None:
        self._count_overhead()
        if not frame.flags & Flag.ACK:
            self._pings.count(self._responses, self._sender.sent)
            self._write(pack_frame(FrameType.PING, Flag.ACK, 0, frame.payload))

    def _process_priority(self, frame: Frame) -> None:
        self._count_overhead()
        if frame.number() == frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "stream depends on itself")

    def _process_window_update(self, frame: Frame) -> None:
        self._count_overhead()
        increment = frame.number()
        if not increment:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "window update by 0")
        if not frame.stream:
            self._sender.increase_window(increment)
            return
        self._inbound.check_opened(frame.stream, finishing=self._draining)
        if frame.stream in self._requests:
            self._sender.increase_stream_window(frame.stream, increment)

    def _process_headers(self, frame: Frame) -> None:
        block = self._blocks.start(frame)
        if block is not None:
            self._process_block(block)

    def _process_continuation(self, frame: Frame) -> None:
        self._count_overhead()
        block = self._blocks.resume(frame)
        if block is not None:
            self._process_block(block)

    def _process_block(self, block: HeaderBlock) -> None:
        """Begin with a request, or process its trailers."""
        if not block.stream % 2:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "client used an even stream number")
        if block.stream <= self._inbound.last:
            self._process_late_headers(block)
        elif self._draining or len(self._requests) + self.computing >= MAX_STREAMS:
            self._headers.skip(block.data)
            if not self._draining:
                self._inbound.open(block.stream)
            self._ignore_content(block)
            raise StreamFailed(block.stream, ErrorCode.REFUSED_STREAM)
        else:
            self._accept_request(block)

    def _accept_request(self, block: HeaderBlock) -> None:
        self._inbound.open(block.stream)
        try:
            headers = self._headers.read(block.data)
            if block.ended and headers.content_length:
                raise MalformedHeaders("content length of a request without content")
        except MalformedHeaders as error:
            self._ignore_content(block)
            raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR) from error
        if not block.ended:
            self._inbound.expect_content(block.stream, headers.content_length)
        request = self._requests[block.stream] = self._accept(self, block.stream, headers)
        request.begin()
        if block.ended and block.stream in self._requests:
            request.receive(b"", ended=True)

    def _process_late_headers(self, block: HeaderBlock) -> None:
        """Process headers on a stream that was opened before: trailers, or a violation of the protocol."""
        if block.stream in self._inbound.receiving:
            try:
                self._headers.read_trailers(block.data)
            except MalformedHeaders as error:
                raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR) from error
            if not block.ended or self._inbound.is_content_missing(block.stream):
                raise StreamFailed(block.stream, ErrorCode.PROTOCOL_ERROR)
            self._inbound.close(block.stream)
            if block.stream in self._requests:
                self._requests[block.stream].receive(b"", ended=True)
            return
        self._count_overhead()
        self._headers.skip(block.data)
        if block.stream in self._requests:
            raise StreamFailed(block.stream, ErrorCode.STREAM_CLOSED)
        if block.stream not in self._inbound.ignored:
            skipped = self._inbound.was_skipped(block.stream)
            code = ErrorCode.PROTOCOL_ERROR if skipped else ErrorCode.STREAM_CLOSED
            raise ConnectionFailed(code, "headers on a closed stream")

    def _ignore_content(self, block: HeaderBlock) -> None:
        if not block.ended:
            self._inbound.ignore(block.stream)

    def _process_data(self, frame: Frame) -> None:
        stream, size = frame.stream, len(frame.payload)
        ended = bool(frame.flags & Flag.END_STREAM)
        content = frame.content() if frame.flags & Flag.PADDED else frame.payload
        self._unreturned += size
        if self._unreturned >= _WINDOW_STEP:
            self._write(window_update_frame(0, self._unreturned))
            self._unreturned = 0
        if size < _SMALL_DATA and not ended:
            self._count_overhead()
        if stream not in self._inbound.receiving:
            self._process_late_data(stream, ended=ended)
            return
        increment = self._inbound.receive(stream, size, len(content), ended=ended)
        if increment:
            self._write(window_update_frame(stream, increment))
        request = self._requests.get(stream)
        if request is not None:
            request.receive(content, ended=ended)

    def _process_late_data(self, stream: int, *, ended: bool) -> None:
        """Process content on a stream that does not expect any."""
        self._inbound.check_opened(stream, finishing=self._draining)
        self._count_overhead()
        if stream > self._inbound.last:
            return  # the connection is draining, and this stream was refused
        if stream not in self._inbound.ignored:
            raise StreamFailed(stream, ErrorCode.STREAM_CLOSED)
        if ended:
            del self._inbound.ignored[stream]

    def _process_rst_stream(self, frame: Frame) -> None:
        self._inbound.check_opened(frame.stream, finishing=self._draining)
        self._count_overhead()
        self._inbound.ignored.pop(frame.stream, None)
        self._cancel(frame.stream)
        self._close_if_drained()

    def _process_push_promise(self, _frame: Frame) -> None:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "clients must not push")

    # Ends of streams and of the connection.

    def _fail_stream(self, stream: int, code: ErrorCode) -> None:
        """Reset a stream and cancel its request."""
        self._count_overhead()
        self._write(rst_stream_frame(stream, code))
        if stream in self._inbound.receiving:
            self._inbound.ignore(stream)
        self._cancel(stream)
        self._close_if_drained()

    def _cancel(self, stream: int) -> None:
        self._sender.drop(stream)
        self._inbound.close(stream)
        request = self._requests.pop(stream, None)
        if request is not None:
            request.cancelled()

    def _response_sent(self, stream: int) -> None:
        request = self._requests.pop(stream, None)
        if request is not None:
            self._responses += 1
            request.finished()
        if stream in self._inbound.receiving:
            self._inbound.close(stream)
            self._inbound.ignore(stream)
            self._write(rst_stream_frame(stream, ErrorCode.NO_ERROR))
        self._close_if_drained()

    def _close_if_drained(self) -> None:
        if self._draining and not self._requests and self._linger is None:
            self._close()

    def _close(self) -> None:
        """Send nothing more, and close the connection when the client has received everything."""
        self._output.flush()
        self._output.closed = True
        self._linger = LingeringClose(self._transport)


_PROCESS: Mapping[int, Callable[[Connection, Frame], None]] = {
    FrameType.DATA: Connection._process_data,
    FrameType.HEADERS: Connection._process_headers,
    FrameType.PRIORITY: Connection._process_priority,
    FrameType.RST_STREAM: Connection._process_rst_stream,
    FrameType.SETTINGS: Connection._process_settings,
    FrameType.PUSH_PROMISE: Connection._process_push_promise,
    FrameType.PING: Connection._process_ping,
    FrameType.WINDOW_UPDATE: Connection._process_window_update,
    FrameType.CONTINUATION: Connection._process_continuation,
}


def format_address(name: object) -> str:
    """Return the host and port of a socket address."""
    if not isinstance(name, tuple):
        return ""
    host = str(name[0]).removeprefix("::ffff:")
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"


MAX_BUFFERED = 1_048_576
"""Bytes of incomplete requests on one connection."""


class RequestHandler(Protocol):
    """The handler of a request, which sends its response over the connection."""

    def begin(self) -> None:
        """Send a response that does not depend on the content of the request, such as an error."""

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Process a part of the content; ``ended`` marks the last part."""

    def finished(self) -> None:
        """Finish the request after its response has been sent."""

    def cancelled(self) -> None:
        """Stop the request, since the client no longer waits for the response."""


_LINGER = 1.0
"""Seconds without data from the client after which a connection with nothing left to deliver is closed."""
_MAX_DISCARDED = 1_048_576
"""Bytes that are discarded before a connection is aborted."""


class Activity(Struct):
    """The time since which a connection makes no progress, as far as observed."""

    since: float
    _progress: tuple[int, ...] = ()

    def update(self, now: float, progress: tuple[int, ...]) -> bool:
        """Return whether ``progress`` has changed since the last call."""
        changed = progress != self._progress
        if changed:
            self.since, self._progress = now, progress
        return changed


class LingeringClose:
    """A connection that sends nothing more, and discards what it receives until the client has received everything.

    If the socket were closed at once, data from the client would cause a reset, and the rest would be lost.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        """Close the sending side."""
        self._transport = transport
        self._discarded = 0
        self._last_received = time.monotonic()
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
            transport.resume_reading()
        except OSError:  # the client has reset the connection, which the event loop has not noticed yet
            transport.abort()

    def discard(self, size: int) -> None:
        """Count bytes from the client, and abort the connection if there are too many."""
        self._last_received = time.monotonic()
        self._discarded += size
        if self._discarded > _MAX_DISCARDED:
            self._transport.abort()

    def is_complete(self) -> bool:
        """Return whether the client has received everything, and had time to close the connection."""
        return not self._undelivered() and time.monotonic() - self._last_received > _LINGER

    def progress(self) -> tuple[int, ...]:
        """Return numbers that change while the client sends or receives."""
        return self._discarded, self._undelivered()

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
