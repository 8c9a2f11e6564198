"""HTTP connections that bound the time, the size and the number of response headers, and end at a signal.

http.client bounds single lines, and urllib3 single reads: a header that arrives byte by byte, informational responses
(RFC 9110, section 15.2) and trailers could go on without end.
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

from opmkit.imagetools import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from _typeshed import WriteableBuffer

    from opmkit.imagetools.registry.retry import Deadline

MAX_HEADER_SIZE = 256 << 10
"""Bytes of a response header, including the informational responses before it, and of a trailer."""
MAX_INFORMATIONAL = 20
"""Informational responses to one request."""

_body_deadline: ContextVar[Deadline | None] = ContextVar("body_deadline", default=None)


class HeaderLimitExceeded(http.client.HTTPException):
    """A response header beyond MAX_HEADER_SIZE or MAX_INFORMATIONAL."""


@contextmanager
def reading_until(deadline: Deadline) -> Iterator[None]:
    """Let what this thread reads of response bodies within the block time out at ``deadline``."""
    token = _body_deadline.set(deadline)
    try:
        yield
    finally:
        _body_deadline.reset(token)


def pool_classes() -> Mapping[str, type[HTTPConnectionPool]]:
    """Return the connection pools by scheme, in the form of ``urllib3.PoolManager.pool_classes_by_scheme``."""
    return {"http": _Pool, "https": _TLSPool}


class _TimedSocket(io.RawIOBase):
    """The bytes that a socket receives, with a time limit for all of them instead of for each read.

    That of the header is the socket's timeout when the response begins; that of the body is `reading_until`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._timeout = sock.gettimeout()
        self._header_end = None if self._timeout is None else time.monotonic() + self._timeout
        self._stream = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._left()
        if left is None:
            return self._stream.readinto(buffer)
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        try:
            return self._stream.readinto(buffer)
        finally:
            self._socket.settimeout(self._timeout)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _left(self) -> float | None:
        deadline = _body_deadline.get()
        if deadline is None:
            return None if self._header_end is None else self._header_end - time.monotonic()
        return deadline.left() if self._timeout is None else min(self._timeout, deadline.left())


class _BoundedLines(io.BufferedReader):
    """A buffered reader that bounds the lines read in a row: those of headers and trailers."""

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


class _Receiver:
    """What http.client needs of a socket: its `makefile`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def makefile(self, mode: str = "rb", buffering: int | None = None) -> io.BufferedReader:
        return _BoundedLines(_TimedSocket(self._socket))


class _Response(http.client.HTTPResponse):
    """A response with a bounded header."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_Receiver(sock), *args, **kwargs)  # type: ignore[arg-type] # it only calls makefile


class _Connection(HTTPConnection):
    """A connection with bounded response headers, which a signal shuts down in whatever thread it is used."""

    response_class = _Response

    def connect(self) -> None:
        interrupts.cancel_on_signal(self, lambda connection: _shut(connection.sock))  # within a TLS handshake
        super().connect()
        interrupts.cancel_on_signal(self.sock, _shut)  # a response may outlive its connection


class _TLSConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


def _shut(connection: socket.socket | None) -> None:
    if connection is not None:
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # that of TLS is not safe between threads


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection
