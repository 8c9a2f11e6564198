"""Connections for ``httpcore2``: limits of time and size, early responses, and the first address that answers."""

from __future__ import annotations

import errno
import re
import select
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from itertools import zip_longest
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import httpcore2

from opmkit.core import interrupts
from opmkit.http.errors import HeaderLimitExceeded, InvalidHeader, InvalidURL, Unreachable
from opmkit.http.messages import NO_DEADLINE, Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_HEADER_SIZE = 256 << 10
"""Bytes of the header of a response, and of each informational response before it."""
MAX_INFORMATIONAL = 20
"""Informational responses per request."""
_READ_SIZE = 1 << 17
_NEXT_ADDRESS = 0.3
"""Seconds after which the next address of a host is tried as well, as in Go; RFC 8305 recommends 0.25."""
_CLOSED = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EPROTOTYPE})
_NOT_READY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_START = b"HTTP/"
_HEADER_END = re.compile(rb"\n\r?\n")
_INFORMATIONAL = re.compile(rb"HTTP/1\.[01] +1")
_FINAL_STATUS = re.compile(rb"(?:\A|\n\r?\n)HTTP/1\.[01] +[2-9]")
_STATUS_SPACES = re.compile(rb"\A(HTTP/1\.[01]) {2,}")
_LENGTH_ZEROS = re.compile(rb"^(content-length:[ \t]*)0+(?=[0-9])", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^content-length:[^\n]*\n", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:[ \t]*chunked[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_LAST_CHUNK = re.compile(rb"(?:\A|\n)0+\r?\n\r?\n\Z")
_TAIL = 16


class HttpStream(httpcore2.NetworkStream):
    """A connection to a server or proxy that receives one response at a time, and nothing beyond it.

    h11 would read what follows a response as the next one. It also limits the size of incomplete headers only, and
    rejects some that Go accepts. So it receives headers as a whole, and bodies up to their length.
    """

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        """Use a connected stream of ``httpcore2``."""
        self._inner = inner
        self._socket: socket.socket = inner.get_extra_info("socket")
        self._is_nested = isinstance(inner.get_extra_info("ssl_object"), ssl.SSLObject)
        """Whether this is TLS within the TLS of a proxy."""
        self._received = b""
        self._tail = b""
        self._informational = 0
        self._header_deadline = NO_DEADLINE
        self._in_body = False
        self._length: int | None = 0
        self.deadline = NO_DEADLINE
        """The deadline for the body; a read that would start after it fails."""
        self.has_answered = False
        """Whether a header has arrived after the request."""
        self.has_ended = False
        """Whether the server has closed the connection."""
        interrupts.cancel_on_signal(self._socket, shut_down)

    def expect_body(self, length: int | None, *, is_chunked: bool) -> None:
        """Let the next reads receive a body of ``length`` bytes, of chunks, or else up to the end."""
        self._in_body, self._length, self._tail = True, length, b"" if is_chunked else b"0\n\n"

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return a whole header, or at most ``max_bytes`` of a body; nothing at the end of the connection."""
        if not self._in_body:
            return self._read_header()
        seconds = self.deadline.remaining()
        size = max_bytes if self._length is None else min(max_bytes, self._length)
        data, self._received = self._received[:size], self._received[size:]
        data = data or self._receive(size, seconds if timeout is None else min(seconds, timeout))
        if self._length is not None:
            self._length -= len(data)
        else:
            self._tail = (self._tail + data)[-_TAIL:]
        return data

    def _read_header(self) -> bytes:
        while not (end := _HEADER_END.search(self._received)):
            if not _START.startswith(self._received[: len(_START)]):
                raise InvalidHeader("the header violates HTTP")
            if len(self._received) > MAX_HEADER_SIZE:
                raise HeaderLimitExceeded(f"the response header exceeds {MAX_HEADER_SIZE} bytes")
            room = MAX_HEADER_SIZE + 1 - len(self._received)
            data = self._receive(min(room, _READ_SIZE), self._header_deadline.remaining())
            if not data:
                raise ConnectionResetError("connection closed without a response")
            self._received += data
        header, self._received = self._received[: end.end()], self._received[end.end() :]
        if not header.startswith(_START):
            raise InvalidHeader("the header violates HTTP")
        self._informational += bool(_INFORMATIONAL.match(header))
        if self._informational > MAX_INFORMATIONAL:
            raise HeaderLimitExceeded(f"more than {MAX_INFORMATIONAL} informational responses")
        self.has_answered = True
        return _tolerated(header)

    def _receive(self, size: int, seconds: float) -> bytes:
        if seconds <= 0:
            raise TimeoutError("timed out")
        with _os_errors():
            data = self._inner.read(size, seconds)
        self.has_ended = not data
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send a part of a request, unless the server has responded already."""
        if not buffer:  # the end of a request: the response may arrive now
            return
        if self._in_body:
            self._in_body, self._informational, self.has_answered = False, 0, False
        seconds = float("inf") if timeout is None else timeout
        self._header_deadline = deadline = Deadline(time.monotonic() + seconds)
        if self._is_nested:
            self._inner.write(buffer, timeout)
            return
        try:
            self._send(memoryview(buffer), deadline)
        except OSError as error:
            if error.errno in _CLOSED:  # the server may have responded before it closed the connection
                raise httpcore2.WriteError(str(error)) from error
            raise

    def _send(self, view: memoryview, deadline: Deadline) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        self._socket.settimeout(0)
        if poll.poll(0):
            self._receive_early()
        while view:
            try:
                view = view[self._socket.send(view) :]
            except _NOT_READY as error:
                needs_input = isinstance(error, ssl.SSLWantReadError)
                poll.modify(self._socket, select.POLLIN if needs_input else select.POLLIN | select.POLLOUT)
                ready = poll.poll(min(deadline.remaining(), 3600) * 1000)
                if not ready:
                    raise TimeoutError("timed out") from None
                if ready[0][1] & ~select.POLLOUT:
                    self._receive_early()

    def _receive_early(self) -> None:
        """Receive what arrives before the request is sent; raise WriteError if it is the response, or the end."""
        try:
            data = self._socket.recv(_READ_SIZE)
        except _NOT_READY:  # a message of TLS itself
            return
        self._received += data
        if not data or _FINAL_STATUS.search(self._received) or len(self._received) > MAX_HEADER_SIZE:
            raise httpcore2.WriteError("the server does not wait for the end of the request")

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> HttpStream:
        """Return the connection with TLS; it is closed if the handshake fails."""
        name = _plain((server_hostname or "").rstrip(".")).partition("%")[0]
        with _os_errors():
            return HttpStream(self._inner.start_tls(ssl_context, encoded(name), timeout))  # type: ignore[arg-type] # bytes

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        """Return information about the connection; one that has more to read than its response is not idle."""
        if info == "is_readable" and (self._received or (self._length is None and not _LAST_CHUNK.search(self._tail))):
            return True
        return self._inner.get_extra_info(info)


def _tolerated(header: bytes) -> bytes:
    """Return a header without what h11 rejects, but Go accepts."""
    header = _STATUS_SPACES.sub(rb"\1 ", header, count=1)
    if _CHUNKED.search(header):  # RFC 9112, section 6.3: it overrides a Content-Length
        return _LENGTH.sub(b"", header)
    return _LENGTH_ZEROS.sub(rb"\1", header)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raise the errors of the operating system as such."""
    try:
        yield
    except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
        raise error.__cause__ or OSError(str(error)) from None


class Backend(httpcore2.NetworkBackend):
    """Opens connections to the first address of a host that answers (RFC 8305), which it remembers."""

    def __init__(self) -> None:
        """Create a backend."""
        self._reachable: dict[tuple[str, int], str] = {}

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> HttpStream:
        """Connect to a host.

        Raises:
            InvalidURL: The host has an invalid name.
            Unreachable: None of its addresses answers.
        """
        try:
            addresses = _addresses(_plain(host), port)
            known = self._reachable.get((host, port))
            addresses.sort(key=lambda address: address != known)
            address, stream = _connect_first(addresses, port, timeout)
        except UnicodeError as error:  # a label of the name is too long
            raise InvalidURL("invalid URL") from error
        except OSError as error:
            raise Unreachable(error) from None
        self._reachable[host, port] = address
        return HttpStream(stream)


def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, alternately of the families that it has."""
    found = socket.getaddrinfo(encoded(host), port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(_numeric(info[0], info[4]) for info in found))
    is_first = [(":" in address) == (":" in addresses[0]) for address in addresses]
    pairs = zip_longest(
        *(
            [each for each, first in zip(addresses, is_first, strict=True) if first is wanted]
            for wanted in (True, False)
        )
    )
    return [address for pair in pairs for address in pair if address]


def _numeric(family: int, address: Sequence[Any]) -> str:
    scope = f"%{address[3]}" if family == socket.AF_INET6 and len(address) > 3 and address[3] else ""
    return f"{str(address[0]).partition('%')[0]}{scope}"


def _connect_first(addresses: Sequence[str], port: int, timeout: float | None) -> tuple[str, httpcore2.NetworkStream]:
    """Connect to the first address that answers, each some time after the one before."""
    if len(addresses) == 1:
        return addresses[0], _connect(addresses[0], port, timeout)
    results: SimpleQueue[tuple[str, httpcore2.NetworkStream | OSError]] = SimpleQueue()
    is_decided = threading.Event()

    def attempt(address: str) -> None:
        try:
            results.put((address, _connect(address, port, timeout)))
        except OSError as error:
            results.put((address, error))
        if is_decided.is_set():
            _close_all(results)

    errors: list[OSError] = []
    waiting = list(addresses)
    while len(errors) < len(addresses):
        if waiting:
            threading.Thread(target=attempt, args=(waiting.pop(0),), daemon=True).start()
        try:
            address, result = results.get(timeout=_NEXT_ADDRESS if waiting else None)
        except Empty:
            continue
        if not isinstance(result, OSError):
            is_decided.set()
            _close_all(results)
            return address, result
        errors.append(result)
    raise errors[0]


def _close_all(results: SimpleQueue[tuple[str, httpcore2.NetworkStream | OSError]]) -> None:
    with suppress(Empty):
        while True:
            _, result = results.get_nowait()
            if not isinstance(result, OSError):
                result.close()


def _connect(address: str, port: int, timeout: float | None) -> httpcore2.NetworkStream:
    with _os_errors():
        return httpcore2.SyncBackend().connect_tcp(encoded(address), port, timeout, None, _KEEPALIVE)  # type: ignore[arg-type] # bytes


def _keepalive_options() -> list[tuple[int, int, int]]:
    """Return the socket options with which Go finds out that a peer is gone: after 15 s, then 9 times in 15 s."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPALIVE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9)):
        if hasattr(socket, name):  # the second is the first one of macOS
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


_KEEPALIVE = _keepalive_options()


def _plain(host: str) -> str:
    """Return a host without the brackets of an IPv6 address."""
    return host[1:-1] if host.startswith("[") else host


def encoded(host: str) -> str | bytes:
    """Return a name in ASCII as bytes: for others, Python imports the slow codec ``idna``, which rejects some."""
    is_plain = host.isascii() and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
    return host.encode() if is_plain else host


def shut_down(connection: socket.socket) -> None:
    """End the operations of other threads on a connection."""
    with suppress(OSError):  # already closed
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # the method of ssl.SSLSocket is not thread-safe
