"""Calls of gRPC over HTTP/2: messages of a request are answered by messages, and a status at the end.

This is the protocol "gRPC over HTTP2" of the gRPC project, without compression of messages.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from opmkit.index.server.http2.connection import MAX_BUFFERED
from opmkit.index.server.http2.headers import compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.index.server.backend import Reply
    from opmkit.index.server.http2.connection import Connection
    from opmkit.index.server.http2.headers import RequestHeaders
    from opmkit.index.server.http2.sender import Outgoing

    Messages: TypeAlias = Iterable[bytes] | "FramedMessages"

_log = logging.getLogger(__name__)

_PREFIX = struct.Struct(">?I")
"""What goes before a message: whether it is compressed, and its size."""

MAX_REQUEST_SIZE = 65_536
"""Bytes of a message that is taken: requests consist of names."""
MAX_WAITING_MESSAGES = 100
"""Messages of one call that may wait for those before them to be answered."""
MAX_ERROR_LENGTH = 1000
"""Characters of an error that are told: what was asked for is in it, and all headers have to fit into one frame."""
_EXPLANATION = b"This is a gRPC server: call it by opm catalog, or by another client for gRPC.\n"
_CONTENT = {":status": "200", "content-type": "application/grpc"}


class Status(IntEnum):
    """How calls end."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


class CallFailed(Exception):
    """A call that ends without an answer: a status, and a text for the caller."""

    def __init__(self, status: Status, text: str) -> None:
        """Say why."""
        super().__init__(text)
        self.status = status


class FramedMessages(bytes):
    """Messages as they are sent, each behind its size."""


@dataclass(frozen=True, slots=True)
class Method:
    """What answers the messages of calls: with messages, or with what makes them in a thread.

    ``answer`` raises CallFailed, also what it gives to be called. A call has one message, or any number if it
    ``repeats``.
    """

    answer: Callable[[bytes], Reply[Messages]]
    repeats: bool = False


class GrpcDispatcher:
    """The calls of one process: their methods by path, and whether they are logged."""

    def __init__(self, methods: Mapping[str, Method], *, logged: bool) -> None:
        """Answer calls by ``methods``."""
        self.methods = methods
        self.logged = logged
        self._services = {path.split("/")[1] for path in methods}

    def accept(self, connection: Connection, stream: int, headers: RequestHeaders) -> Call | PlainHttpRequest:
        """Begin with a call."""
        if not headers.content_type.startswith(b"application/grpc") or headers.method != b"POST":
            return PlainHttpRequest(self, connection, stream, headers)
        return Call(self, connection, stream, headers.path.decode(errors="replace"))

    def record(self, path: str, peer: str, status: Status, start: float, size: int) -> None:
        """Log a call that is over, if calls are logged."""
        if self.logged:
            fields = {
                "method": path,
                "peer": peer,
                "code": status.name,
                "ms": round((time.perf_counter() - start) * 1000, 2),
                "bytes": size,
            }
            _log.info("call", extra={"fields": fields})

    def unknown(self, path: str) -> str:
        """Return the text of the error for a path without a method."""
        service, _, method = path.removeprefix("/").rpartition("/")
        known = service in self._services
        return f"unknown method {method} for service {service}" if known else f"unknown service {service}"


class PlainHttpRequest:
    """A request of a client that doesn't speak gRPC, such as a browser."""

    def __init__(self, calls: GrpcDispatcher, connection: Connection, stream: int, headers: RequestHeaders) -> None:
        """Wait for the end of the request."""
        self._calls = calls
        self._connection = connection
        self._stream = stream
        self._headers = headers
        self._size = 0
        self._outgoing: Outgoing | None = None
        self._start = time.perf_counter()

    def begin(self) -> None:
        """Do nothing: the answer comes when the request is complete."""

    def received(self, data: bytes, *, ended: bool) -> None:
        """Answer the request when it is complete, or when it is too large."""
        self._size += len(data)
        if self._outgoing is None and (ended or self._size > MAX_REQUEST_SIZE):
            self._outgoing = self._connection.open(self._stream, _OTHER)
            self._outgoing.sources.append(iter(() if self._headers.method == b"HEAD" else (_EXPLANATION,)))
            self._outgoing.trailers = b""
            self._connection.send(self._outgoing)

    def answered(self) -> None:
        """Log the request."""
        self._record(Status.UNKNOWN)

    def abandoned(self) -> None:
        """Log the request."""
        self._record(Status.CANCELLED)

    def _record(self, status: Status) -> None:
        sent = self._outgoing.sent if self._outgoing else 0
        path = self._headers.path.decode(errors="replace")
        self._calls.record(path, self._connection.peer, status, self._start, sent)


class Call:
    """A call in progress."""

    def __init__(self, calls: GrpcDispatcher, connection: Connection, stream: int, path: str) -> None:
        """Wait for its messages."""
        self._calls = calls
        self._connection = connection
        self._stream = stream
        self.path = path
        self.method = calls.methods.get(path)
        self._buffer = b""
        self._held = 0
        self._messages = 0
        self._waiting: deque[bytes] = deque()
        self._pending = self._complete = self._over = False
        self._outgoing: Outgoing | None = None
        self._status = Status.OK
        self._start = time.perf_counter()

    # What the connection calls.

    def begin(self) -> None:
        """Fail a call of an unknown method."""
        if self.method is None:
            self.fail(Status.UNIMPLEMENTED, self._calls.unknown(self.path))

    def received(self, data: bytes, *, ended: bool) -> None:
        """Take more of the request."""
        if self._over or self.method is None:
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._take_messages(self.method)
            if ended and (self._buffer or not (self._messages or self.method.repeats)):
                raise CallFailed(Status.INTERNAL, "the request is not complete")
            self._complete = ended
            self._continue()
            self._hold(len(self._buffer) + sum(map(len, self._waiting)))
            if self._connection.buffered > MAX_BUFFERED:
                raise CallFailed(Status.RESOURCE_EXHAUSTED, "too many incomplete requests at a time")
        except CallFailed as error:
            self.fail(error.status, str(error))

    def answered(self) -> None:
        """Log a call that has come to its end."""
        self._record(self._status)

    def abandoned(self) -> None:
        """Log a call that was given up."""
        self._record(Status.CANCELLED)

    # QueryBackend.

    def fail(self, status: Status, text: str) -> None:
        """End without an answer, or without more of it."""
        if self._over:
            return
        self._over = True
        self._status = status
        self._release()
        if self._outgoing is None:
            self._connection.refuse(self._stream, _trailers(status, text, alone=True))
        self._end(_trailers(status, text))

    def _hold(self, size: int) -> None:
        """Count what waits in memory for the connection."""
        if size != self._held:
            self._connection.buffered += size - self._held
            self._held = size

    def _release(self) -> None:
        self._waiting.clear()
        self._buffer = b""
        self._hold(0)

    def _take_messages(self, method: Method) -> None:
        buffer, position = self._buffer, 0
        while len(buffer) - position >= _PREFIX.size:
            shrunk, size = _PREFIX.unpack_from(buffer, position)
            if shrunk:
                raise CallFailed(Status.UNIMPLEMENTED, "compressed requests are not understood")
            if size > MAX_REQUEST_SIZE:
                raise CallFailed(Status.RESOURCE_EXHAUSTED, f"a request of {size} bytes is too large")
            end = position + _PREFIX.size + size
            if end > len(buffer):
                break
            self._messages += 1
            if self._messages > 1 and not method.repeats:
                raise CallFailed(Status.INTERNAL, "more than one request")
            self._waiting.append(buffer[position + _PREFIX.size : end])
            if len(self._waiting) > MAX_WAITING_MESSAGES:
                raise CallFailed(Status.RESOURCE_EXHAUSTED, "too many messages at a time")
            position = end
        self._buffer = buffer[position:]

    def _continue(self) -> None:
        """Answer what waits, one message after the other, and end when no more is to come."""
        while self._waiting and not self._pending and self.method:
            found = self.method.answer(self._waiting.popleft())
            if callable(found):
                self._pending = True
                self._connection.working += 1
                asyncio.get_running_loop().run_in_executor(None, found).add_done_callback(self._made)
            else:
                self._reply(found)
        if self._complete and not self._waiting and not self._pending:
            self._reply(())
            self._end(_OK)

    def _made(self, made: asyncio.Future[Messages]) -> None:
        """Go on with what was made in a thread."""
        self._connection.working -= 1
        self._pending = False
        try:
            messages = made.result()
            if not self._over:
                self._reply(messages)
                self._continue()
                self._hold(len(self._buffer) + sum(map(len, self._waiting)))
        except CallFailed as error:
            self.fail(error.status, str(error))
        self._connection.flush()

    def _reply(self, messages: Messages) -> None:
        if self._outgoing is None:
            self._outgoing = self._connection.open(self._stream, _HEADERS)
        self._outgoing.sources.append(iter((messages,)) if isinstance(messages, FramedMessages) else _framed(messages))
        self._connection.send(self._outgoing)

    def _end(self, trailers: bytes) -> None:
        if self._outgoing is not None:
            self._outgoing.trailers = trailers
            self._connection.send(self._outgoing)

    def _record(self, status: Status) -> None:
        self._over = True
        self._release()
        sent = self._outgoing.sent if self._outgoing else 0
        self._calls.record(self.path, self._connection.peer, status, self._start, sent)


def framed(messages: Iterable[bytes]) -> FramedMessages:
    """Messages that are to be sent more than once."""
    return FramedMessages(b"".join(_framed(messages)))


def _framed(messages: Iterable[bytes]) -> Iterator[bytes]:
    for message in messages:
        yield _PREFIX.pack(False, len(message))
        yield message


@lru_cache(maxsize=256)
def _trailers(status: Status, text: str = "", *, alone: bool = False) -> bytes:
    """The end of a call, with the headers of the answer where there was none."""
    headers = dict(_CONTENT) if alone else {}
    headers["grpc-status"] = str(int(status))
    if text:
        raw = text[:MAX_ERROR_LENGTH].encode()
        escaped = (chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in raw)
        headers["grpc-message"] = "".join(escaped)
    return compressed(headers)


_HEADERS = compressed(_CONTENT)
_OTHER = compressed({":status": "415", "content-type": "text/plain"})
_OK = _trailers(Status.OK)
