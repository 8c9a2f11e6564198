"""HTTP/1.1 connections, which limit the time, size and number of responses. The protocol is that of ``h11``."""

from __future__ import annotations

import errno
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol
from urllib.parse import quote, urlsplit

import h11
from msgspec import Struct

from opmkit.core import interrupts

MAX_HEADER_SIZE = 256 << 10
"""Bytes of the header of a response, of each informational response before it, and of a trailer."""
MAX_INFORMATIONAL = 20
"""Informational responses per request."""
_READ_SIZE = 1 << 17
_PORTS = {"http": 80, "https": 443}
_TARGET_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))
_HEADER_TOO_LARGE = 431
"""The status with which h11 marks the error of a header or trailer above its limit."""


class InvalidURL(ValueError):
    """A URL that no request can be sent to."""


class Unreachable(Exception):
    """No connection to a server; its cause is the OSError."""


class HeaderLimitExceeded(Exception):
    """A response header beyond MAX_HEADER_SIZE or MAX_INFORMATIONAL."""


class InvalidHeader(Exception):
    """A response header that violates HTTP."""


class IncompleteBody(Exception):
    """A response whose body ended early, or continues with an invalid encoding."""


CONNECTION_ERRORS = (OSError, Unreachable, HeaderLimitExceeded, InvalidHeader, IncompleteBody)
"""The errors of a connection or response."""


class Origin(Struct, frozen=True):
    """The server of a URL."""

    scheme: str
    host: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> Origin:
        """Return the server of an HTTP or HTTPS URL; raise InvalidURL."""
        parts = urlsplit(url)
        try:
            port = parts.port if parts.port is not None else _PORTS[parts.scheme]
            host = parts.hostname or ""
            return cls(parts.scheme, host if host.isascii() else host.encode("idna").decode(), port)
        except (KeyError, ValueError) as error:
            raise InvalidURL("invalid URL") from error

    @property
    def authority(self) -> str:
        """Host and port, as in a CONNECT request."""
        return f"{self._bracketed}:{self.port}"

    @property
    def host_header(self) -> str:
        """The host, with the port unless it is that of the scheme."""
        return self._bracketed if self.port == _PORTS[self.scheme] else self.authority

    @property
    def _bracketed(self) -> str:
        name = self.host.rstrip(".")  # which only matters to resolvers
        return f"[{name}]" if ":" in name else name


def request_target(url: str) -> str:
    """Return the path and query of a URL for a request line."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return quote(target, safe=_TARGET_CHARACTERS)


class Deadline(Struct, frozen=True):
    """A time of ``clock`` after which no attempt starts."""

    expires_at: float
    clock: Callable[[], float] = time.monotonic

    def remaining(self) -> float:
        """Return the seconds until the deadline, at least 0."""
        return max(0.0, self.expires_at - self.clock())


class Body(Protocol):
    """The content of a request as parts, whose length in bytes becomes the Content-Length."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the parts."""


class Headers(Mapping[str, str]):
    """Header fields with case-insensitive names; the values of a repeated one are joined by commas."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Create the mapping of fields whose names are in lower case."""
        values: dict[str, list[str]] = {}
        for name, value in fields:
            values.setdefault(name.decode("ascii"), []).append(value.decode("latin-1"))
        self._values = {name: ", ".join(each) for name, each in values.items()}

    def __getitem__(self, name: str) -> str:
        """Return a value."""
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in lower case."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._values)


class Transport(Protocol):
    """A socket, or TLS over a TLS socket."""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive some bytes, none at the end, and return their number."""

    def settimeout(self, seconds: float | None, /) -> None:
        """Limit the time of each call."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def close(self) -> None:
        """Close the connection."""


class HttpConnection:
    """A connection to a server or proxy, for one request after the other.

    A request limits the time for its header to ``timeout`` seconds in total; bodies are read with a `Deadline`.
    """

    def __init__(self, transport: Transport) -> None:
        """Use a connected socket."""
        self._transport = transport
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_SIZE)
        self._timeout = 0.0
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._unread = memoryview(b"")

    @property
    def is_alive(self) -> bool:
        """Whether the server has neither closed an idle connection, nor sent anything that is not a response."""
        poll = select.poll()
        poll.register(self._transport.fileno(), select.POLLIN)
        return not poll.poll(0)

    def send(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | Body, timeout: float
    ) -> h11.Response:
        """Send a request and return the header of the response.

        Raises:
            HeaderLimitExceeded: The header is too large.
            InvalidHeader: The header violates HTTP.
            OSError: The connection failed, or the response takes too long.
            ValueError: The target or a header is invalid.
        """
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        self._timeout = timeout
        self._transport.settimeout(timeout)
        try:
            self._send_request(method, target, headers, body)
        except OSError as error:  # the server may have responded before it closed the connection
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EPROTOTYPE):
                raise
        return self._receive_header(time.monotonic() + timeout)

    def read(self, size: int, deadline: Deadline) -> bytes:
        """Read at most ``size`` bytes of the body, none only at its end.

        Raises:
            HeaderLimitExceeded: A trailer is too large.
            IncompleteBody: The server closed the connection, or the encoding of the body is invalid.
            OSError: The connection failed, or the deadline passed.
        """
        if not self._unread and self._protocol.their_state is h11.SEND_BODY:
            event = self._next_event(lambda: min(self._timeout, deadline.remaining()))
            self._unread = memoryview(event.data if isinstance(event, h11.Data) else b"")
        data, self._unread = bytes(self._unread[:size]), self._unread[size:]
        return data

    def finish(self) -> bool:
        """Return whether the response was read to its end and the connection can be used again."""
        protocol = self._protocol
        if not self._unread and protocol.their_state is h11.SEND_BODY:
            with suppress(h11.RemoteProtocolError):
                protocol.next_event()  # the end of a body whose length is known
        return protocol.our_state is protocol.their_state is h11.DONE and not protocol.trailing_data[0]

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _send_request(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | Body) -> None:
        protocol = self._protocol
        try:
            head = protocol.send(h11.Request(method=method, target=target, headers=headers))
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        if isinstance(body, bytes):
            if body:
                head += protocol.send(h11.Data(data=body))
            self._transport.sendall(head + protocol.send(h11.EndOfMessage()))
            return
        self._transport.sendall(head)
        for data in body:
            self._transport.sendall(protocol.send(h11.Data(data=data)))
        protocol.send(h11.EndOfMessage())

    def _receive_header(self, expires_at: float) -> h11.Response:
        for _ in range(MAX_INFORMATIONAL + 1):
            event = self._next_event(lambda: expires_at - time.monotonic())
            if isinstance(event, h11.Response):
                return event
        raise HeaderLimitExceeded(f"more than {MAX_INFORMATIONAL} informational responses")

    def _next_event(self, seconds_left: Callable[[], float]) -> object:
        """Return the next part of a response, with reads of at most ``seconds_left()``."""
        in_body = self._protocol.their_state is h11.SEND_BODY
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                seconds = seconds_left()
                if seconds <= 0:
                    raise TimeoutError("timed out")
                self._transport.settimeout(seconds)
                # h11 only limits what is incomplete: a header that one read completes could exceed the limit
                room = MAX_HEADER_SIZE + 1 - len(self._protocol.trailing_data[0])
                count = self._transport.recv_into(self._buffer[:room])
                if not count and not in_body:
                    raise ConnectionResetError("connection closed without a response")
                self._protocol.receive_data(self._buffer[:count])  # type: ignore[arg-type] # copies any buffer
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _HEADER_TOO_LARGE:
                raise HeaderLimitExceeded(f"the response header exceeds {MAX_HEADER_SIZE} bytes") from error
            raise (IncompleteBody if in_body else InvalidHeader)("the header violates HTTP") from error
        return event


def connect(
    origin: Origin,
    timeout: float,
    context: Callable[[], ssl.SSLContext],
    proxy: Proxy | None = None,
    server_name: str = "",
) -> HttpConnection:
    """Connect to a server, or to the proxy for it.

    Args:
        origin: The server.
        timeout: Maximum seconds for the connection and for each step of the TLS handshake.
        context: Returns the TLS context for the server; its errors are raised.
        proxy: The proxy.
        server_name: The name in the server's certificate; "" for its host.

    Raises:
        Unreachable: The server or proxy cannot be reached.
        OSError: The TLS handshake failed, or the proxy refuses to connect to the server.
    """
    server_name = server_name or origin.host
    is_encrypted = origin.scheme == "https"
    if proxy is None:
        transport = _connect_socket(origin, timeout)
        return HttpConnection(_start_tls(transport, context(), server_name) if is_encrypted else transport)
    transport = _connect_socket(proxy.origin, timeout)
    if proxy.origin.scheme == "https":
        transport = _start_tls(transport, proxy.context() if is_encrypted else context(), proxy.origin.host)
    if not is_encrypted:
        return HttpConnection(transport)
    try:
        _open_tunnel(transport, origin, proxy, timeout)
        return HttpConnection(_start_tls(transport, context(), server_name))
    except BaseException:
        transport.close()
        raise


class Proxy(Struct, frozen=True):
    """A proxy, with the headers that authenticate to it, and a function that returns the TLS context for it."""

    origin: Origin
    headers: Mapping[str, str]
    context: Callable[[], ssl.SSLContext]


def _connect_socket(origin: Origin, timeout: float) -> socket.socket:
    try:
        address = (_encoded(origin.host), origin.port)
        connection = socket.create_connection(address, timeout)  # type: ignore[arg-type] # getaddrinfo takes bytes
    except UnicodeError as error:  # a label of the name is too long
        raise InvalidURL("invalid URL") from error
    except OSError as error:
        raise Unreachable(f"no connection to {origin.host}") from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return interrupts.cancel_on_signal(connection, _shut_down)


def _encoded(host: str) -> str | bytes:
    """Return a name in ASCII as bytes: for others, Python imports the slow codec ``idna``, which rejects some."""
    is_plain = host.isascii() and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
    return host.encode() if is_plain else host


def _start_tls(connection: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """Return the connection with TLS; it is closed if the handshake fails."""
    name = host.rstrip(".").partition("%")[0]
    if isinstance(connection, ssl.SSLSocket):  # within the connection to a proxy
        from urllib3.util.ssltransport import SSLTransport

        return SSLTransport(connection, context, name)  # type: ignore[return-value] # has the methods of a socket
    encrypted = context.wrap_socket(connection, server_hostname=_encoded(name), do_handshake_on_connect=False)
    try:
        interrupts.cancel_on_signal(encrypted, _shut_down).do_handshake()
    except BaseException:
        encrypted.close()
        raise
    return encrypted


def _open_tunnel(transport: socket.socket, origin: Origin, proxy: Proxy, timeout: float) -> None:
    headers = [("Host", origin.authority), *proxy.headers.items()]
    response = HttpConnection(transport).send("CONNECT", origin.authority, headers, b"", timeout)
    if response.status_code != 200:
        raise OSError(f"Tunnel connection failed: {response.status_code}")
    transport.settimeout(timeout)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # already closed
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # the method of ssl.SSLSocket is not thread-safe
