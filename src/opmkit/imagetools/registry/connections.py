"""HTTP connections that limit the time, size and number of response headers, and close on a signal.

http.client limits single lines, and urllib3 single reads: a header that arrives byte by byte, informational responses
(RFC 9110, section 15.2) and trailers could continue forever.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from opmkit.core import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from _typeshed import WriteableBuffer

    from opmkit.imagetools.registry.retry import Deadline

MAX_HEADER_SIZE = 256 << 10
"""Bytes of a response header, including the informational responses before it, and of a trailer."""
MAX_INFORMATIONAL = 20
"""Informational responses per request."""

_current_deadline: ContextVar[Deadline | None] = ContextVar("body_deadline", default=None)


class HeaderLimitExceeded(http.client.HTTPException):
    """A response header beyond MAX_HEADER_SIZE or MAX_INFORMATIONAL."""


@contextmanager
def body_deadline(deadline: Deadline) -> Iterator[None]:
    """Limit the time in which this thread reads response bodies within the block."""
    token = _current_deadline.set(deadline)
    try:
        yield
    finally:
        _current_deadline.reset(token)


def pool_classes() -> Mapping[str, type[HTTPConnectionPool]]:
    """Return the connection pool classes by scheme, for ``urllib3.PoolManager.pool_classes_by_scheme``."""
    return {"http": _Pool, "https": _TLSPool}


class _DeadlineReader(io.RawIOBase):
    """A reader of a socket with a time limit for all reads together instead of for each.

    The limit for a header is the timeout of the socket when the response begins; for a body it is `body_deadline`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._timeout = sock.gettimeout()
        self._header_deadline = None if self._timeout is None else time.monotonic() + self._timeout
        self._stream = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        seconds = self._seconds_left()
        if seconds is None:
            return self._stream.readinto(buffer)
        if seconds <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(seconds)
        try:
            return self._stream.readinto(buffer)
        finally:
            self._socket.settimeout(self._timeout)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _seconds_left(self) -> float | None:
        deadline = _current_deadline.get()
        if deadline is None:
            return None if self._header_deadline is None else self._header_deadline - time.monotonic()
        return deadline.remaining() if self._timeout is None else min(self._timeout, deadline.remaining())


class _HeaderLimitReader(io.BufferedReader):
    """A buffered reader that limits consecutive lines, as in headers and trailers."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self._size = self._responses = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self._size += len(line)
        self._responses += line.startswith(b"HTTP/")
        if self._size > MAX_HEADER_SIZE:
            raise HeaderLimitExceeded(f"the response header exceeds {MAX_HEADER_SIZE} bytes")
        if self._responses > MAX_INFORMATIONAL + 1:
            raise HeaderLimitExceeded(f"more than {MAX_INFORMATIONAL} informational responses")
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        self._size = 0
        return super().read(size)

    def read1(self, size: int = -1, /) -> bytes:
        self._size = 0
        return super().read1(size)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._size = 0
        return super().readinto(buffer)


class _SocketAdapter:
    """A socket as http.client uses it for responses: its `makefile`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def makefile(self, mode: str = "rb", buffering: int | None = None) -> io.BufferedReader:
        return _HeaderLimitReader(_DeadlineReader(self._socket))


class _Response(http.client.HTTPResponse):
    """A response with a limited header."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_SocketAdapter(sock), *args, **kwargs)  # type: ignore[arg-type] # only makefile is called


class _Connection(HTTPConnection):
    """A connection with limited response headers that closes on a signal, in any thread."""

    response_class = _Response

    def connect(self) -> None:
        interrupts.cancel_on_signal(self, lambda connection: _shut_down(connection.sock))  # during a TLS handshake
        super().connect()
        interrupts.cancel_on_signal(self.sock, _shut_down)  # a response may outlive its connection


class _TLSConnection(_Connection, HTTPSConnection):
    """A connection over TLS with limited response headers that closes on a signal."""

    def connect(self) -> None:
        super().connect()
        self.is_verified = True  # no InsecureRequestWarning where the options disable verification


def _shut_down(connection: socket.socket | None) -> None:
    if connection is not None:
        with suppress(OSError):  # already closed
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # the method of ssl.SSLSocket is not thread-safe


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection
