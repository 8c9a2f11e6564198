"""gRPC calls over HTTP/2, without compression of messages, and the handlers of methods.

See "gRPC over HTTP2" (PROTOCOL-HTTP2.md) of the gRPC project.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.server.http2.connection import MAX_BUFFERED
from opmkit.server.http2.headers import encode_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.server.backend import Reply
    from opmkit.server.http2.connection import Connection
    from opmkit.server.http2.headers import RequestHeaders
    from opmkit.server.http2.sender import OutgoingStream

    Messages: TypeAlias = Iterable[bytes] | "FramedMessages"


MESSAGE_PREFIX = struct.Struct(">?I")
"""The prefix of a message: whether it is compressed, and its size in bytes."""


class StatusCode(IntEnum):
    """The status codes of gRPC that the server uses."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class RpcError(Exception):
    """An error that ends a call, with the status code and the message for the client."""

    def __init__(self, code: StatusCode, text: str) -> None:
        """Create the error."""
        super().__init__(text)
        self.code = code


class FramedMessages(bytes):
    """Messages with their prefixes, as they are sent."""


class MethodHandler(Struct, frozen=True):
    """The handler of a method.

    ``handle`` returns the response to a request message, or a function that computes it in a thread; both may raise
    RpcError. With ``client_streaming`` a call has any number of request messages, otherwise exactly one. A call of an
    ``experimental`` method has an empty response unless the client acknowledges that the method may change.
    """

    handle: Callable[[bytes], Reply[Messages]]
    client_streaming: bool = False
    experimental: bool = False


def frame_messages(messages: Iterable[bytes]) -> FramedMessages:
    """Join messages with their prefixes, to send them more than once."""
    return FramedMessages(b"".join(iter_framed(messages)))


def iter_framed(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each message after its prefix."""
    for message in messages:
        yield MESSAGE_PREFIX.pack(False, len(message))
        yield message


_log = logging.getLogger(__name__)

MAX_REQUEST_SIZE = 65_536
"""Bytes of a request message, which consists of names."""
MAX_WAITING_MESSAGES = 100
"""Request messages of one call that may wait for the responses to earlier ones."""
MAX_ERROR_LENGTH = 1000
"""Characters of an error message that are sent. It quotes the request, and all headers must fit into one frame."""
_NOT_GRPC = b"This is a gRPC server: use opm catalog or another gRPC client.\n"
_CONTENT_HEADERS = {":status": "200", "content-type": "application/grpc"}


class GrpcDispatcher:
    """The methods of a server process, to which it dispatches calls by path."""

    def __init__(self, handlers: Mapping[str, MethodHandler], *, access_log: bool) -> None:
        """Dispatch calls to ``handlers``, which are by path; with ``access_log`` each call is logged."""
        self.handlers = handlers
        self._access_log = access_log
        self._services = {path.split("/")[1] for path in handlers}

    def accept(self, connection: Connection, stream: int, headers: RequestHeaders) -> GrpcCall | PlainHttpRequest:
        """Return the handler of a new request."""
        if not headers.content_type.startswith(b"application/grpc") or headers.method != b"POST":
            return PlainHttpRequest(self, connection, stream, headers)
        return GrpcCall(self, connection, stream, headers)

    def log_call(self, path: str, peer: str, code: StatusCode, start: float, size: int) -> None:
        """Write a call to the access log, if it is enabled; ``start`` is a time of `time.perf_counter`."""
        if self._access_log:
            fields = {
                "method": path,
                "peer": peer,
                "code": code.name,
                "ms": round((time.perf_counter() - start) * 1000, 2),
                "bytes": size,
            }
            _log.info("call", extra={"fields": fields})

    def unknown_method(self, path: str) -> str:
        """Return the error message for a path without a handler."""
        service, _, method = path.removeprefix("/").rpartition("/")
        is_known = service in self._services
        return f"unknown method {method} for service {service}" if is_known else f"unknown service {service}"


class PlainHttpRequest:
    """A request of a client that does not use gRPC, such as a browser."""

    def __init__(
        self, dispatcher: GrpcDispatcher, connection: Connection, stream: int, headers: RequestHeaders
    ) -> None:
        """Wait for the end of the request."""
        self._dispatcher = dispatcher
        self._connection = connection
        self._stream = stream
        self._headers = headers
        self._size = 0
        self._outgoing: OutgoingStream | None = None
        self._start = time.perf_counter()

    def begin(self) -> None:
        """Do nothing: the response is sent after the request."""

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Send the response if the request is complete, or too large."""
        self._size += len(data)
        if self._outgoing is None and (ended or self._size > MAX_REQUEST_SIZE):
            self._outgoing = self._connection.start_response(self._stream, _UNSUPPORTED_HEADERS)
            self._outgoing.sources.append(iter(() if self._headers.method == b"HEAD" else (_NOT_GRPC,)))
            self._outgoing.trailers = b""
            self._connection.send(self._outgoing)

    def finished(self) -> None:
        """Log the request."""
        self._log(StatusCode.UNKNOWN)

    def cancelled(self) -> None:
        """Log the request."""
        self._log(StatusCode.CANCELLED)

    def _log(self, code: StatusCode) -> None:
        sent = self._outgoing.sent if self._outgoing else 0
        path = self._headers.path.decode(errors="replace")
        self._dispatcher.log_call(path, self._connection.peer, code, self._start, sent)


class GrpcCall:
    """A call in progress."""

    def __init__(
        self, dispatcher: GrpcDispatcher, connection: Connection, stream: int, headers: RequestHeaders
    ) -> None:
        """Wait for request messages."""
        path = headers.path.decode(errors="replace")
        self._acknowledged = headers.acknowledged
        self._dispatcher = dispatcher
        self._connection = connection
        self._stream = stream
        self.path = path
        self.handler = dispatcher.handlers.get(path)
        self._buffer = b""
        self._buffered = 0
        self._message_count = 0
        self._waiting: deque[bytes] = deque()
        self._computing = self._request_complete = self._over = False
        self._outgoing: OutgoingStream | None = None
        self._code = StatusCode.OK
        self._start = time.perf_counter()

    # Called by the connection.

    def begin(self) -> None:
        """Fail a call of an unknown method."""
        if self.handler is None:
            self.fail(StatusCode.UNIMPLEMENTED, self._dispatcher.unknown_method(self.path))

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Process a part of the request."""
        if self._over or self.handler is None:
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._parse_messages(self.handler)
            if ended and (self._buffer or not (self._message_count or self.handler.client_streaming)):
                raise RpcError(StatusCode.INTERNAL, "incomplete request")
            self._request_complete = ended
            self._respond()
            self._count_buffered(len(self._buffer) + sum(map(len, self._waiting)))
            if self._connection.buffered > MAX_BUFFERED:
                raise RpcError(StatusCode.RESOURCE_EXHAUSTED, "too many incomplete requests on this connection")
        except RpcError as error:
            self.fail(error.code, str(error))

    def finished(self) -> None:
        """Log the call."""
        self._close(self._code)

    def cancelled(self) -> None:
        """Log the call."""
        self._close(StatusCode.CANCELLED)

    # Responses.

    def fail(self, code: StatusCode, text: str) -> None:
        """End the call with an error."""
        if self._over:
            return
        self._over = True
        self._code = code
        self._release_buffers()
        if self._outgoing is None:
            self._connection.send_headers_only(self._stream, _trailers(code, text, headers_only=True))
        self._end_response(_trailers(code, text))

    def _count_buffered(self, size: int) -> None:
        """Update the connection's count of buffered bytes."""
        if size != self._buffered:
            self._connection.buffered += size - self._buffered
            self._buffered = size

    def _release_buffers(self) -> None:
        self._waiting.clear()
        self._buffer = b""
        self._count_buffered(0)

    def _parse_messages(self, handler: MethodHandler) -> None:
        buffer, position = self._buffer, 0
        while len(buffer) - position >= MESSAGE_PREFIX.size:
            is_compressed, size = MESSAGE_PREFIX.unpack_from(buffer, position)
            if is_compressed:
                raise RpcError(StatusCode.UNIMPLEMENTED, "compressed requests are unsupported")
            if size > MAX_REQUEST_SIZE:
                raise RpcError(StatusCode.RESOURCE_EXHAUSTED, f"request message of {size} bytes is too large")
            end = position + MESSAGE_PREFIX.size + size
            if end > len(buffer):
                break
            self._message_count += 1
            if self._message_count > 1 and not handler.client_streaming:
                raise RpcError(StatusCode.INTERNAL, "more than one request message")
            self._waiting.append(buffer[position + MESSAGE_PREFIX.size : end])
            if len(self._waiting) > MAX_WAITING_MESSAGES:
                raise RpcError(StatusCode.RESOURCE_EXHAUSTED, "too many request messages at a time")
            position = end
        self._buffer = buffer[position:]

    def _respond(self) -> None:
        """Respond to the waiting messages one after the other, and end the call after the last one."""
        while self._waiting and not self._computing and self.handler:
            message = self._waiting.popleft()
            reply = self.handler.handle(message) if self._acknowledged or not self.handler.experimental else ()
            if callable(reply):
                self._computing = True
                self._connection.computing += 1
                asyncio.get_running_loop().run_in_executor(None, reply).add_done_callback(self._computed)
            else:
                self._send(reply)
        if self._request_complete and not self._waiting and not self._computing:
            self._send(())
            self._end_response(_OK_TRAILERS)

    def _computed(self, computed: asyncio.Future[Messages]) -> None:
        """Send a response that was computed in a thread, and respond to the next message."""
        self._connection.computing -= 1
        self._computing = False
        try:
            messages = computed.result()
            if not self._over:
                self._send(messages)
                self._respond()
                self._count_buffered(len(self._buffer) + sum(map(len, self._waiting)))
        except RpcError as error:
            self.fail(error.code, str(error))
        self._connection.flush()

    def _send(self, messages: Messages) -> None:
        if self._outgoing is None:
            self._outgoing = self._connection.start_response(self._stream, _RESPONSE_HEADERS)
        self._outgoing.sources.append(
            iter((messages,)) if isinstance(messages, FramedMessages) else iter_framed(messages)
        )
        self._connection.send(self._outgoing)

    def _end_response(self, trailers: bytes) -> None:
        if self._outgoing is not None:
            self._outgoing.trailers = trailers
            self._connection.send(self._outgoing)

    def _close(self, code: StatusCode) -> None:
        self._over = True
        self._release_buffers()
        sent = self._outgoing.sent if self._outgoing else 0
        self._dispatcher.log_call(self.path, self._connection.peer, code, self._start, sent)


@lru_cache(maxsize=256)
def _trailers(code: StatusCode, text: str = "", *, headers_only: bool = False) -> bytes:
    """Return the encoded trailers of a call, with ``headers_only`` including the headers of the response."""
    headers = dict(_CONTENT_HEADERS) if headers_only else {}
    headers["grpc-status"] = str(int(code))
    if text:
        raw = text[:MAX_ERROR_LENGTH].encode()
        escaped = (chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in raw)
        headers["grpc-message"] = "".join(escaped)
    return encode_headers(headers)


_RESPONSE_HEADERS = encode_headers(_CONTENT_HEADERS)
_UNSUPPORTED_HEADERS = encode_headers({":status": "415", "content-type": "text/plain"})
_OK_TRAILERS = _trailers(StatusCode.OK)
