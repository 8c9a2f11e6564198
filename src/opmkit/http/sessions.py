"""HTTP sessions: pools of connections with the same TLS configuration, through proxies if these are configured."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import httpcore2
from msgspec import Struct

from opmkit._version import __version__
from opmkit.http.errors import (
    CONNECTION_ERRORS,
    HeaderLimitExceeded,
    IncompleteBody,
    InvalidBody,
    InvalidHeader,
    ProxyError,
)
from opmkit.http.messages import Deadline, Headers, Origin, bracketed, request_target
from opmkit.http.streams import Backend
from opmkit.http.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.http.messages import Body, TimeLimits
    from opmkit.http.proxies import Proxy
    from opmkit.http.streams import HttpStream

# httpcore2 rather than urllib3: of 35 unusual and invalid responses, urllib3 accepts 10 that could split or cut off a
# message, and rejects 2 that are valid; httpcore2 rejects 4 valid ones, which `streams` prepares for it. Sockets, time
# limits and sizes are decided in its network backend, without subclasses of its internals.
_MAX_IDLE = 64
"""Idle connections to keep: to several servers, for each of the threads that use them."""
_HEADERS = {"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity", "Accept": "*/*"}
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_BODILESS = frozenset({204, 304})
_TOO_LARGE = 431
"""The status with which h11 marks the error of a trailer above its limit."""
_PAST = Deadline(float("-inf"))


class OpenResponse:
    """A response whose body can be read. As a context manager, it is closed at the end of the block."""

    def __init__(self, url: str, response: httpcore2.Response, headers: Headers) -> None:
        """Describe the response of ``httpcore2``."""
        self.url = url
        self.status = response.status
        self.headers = headers
        self._response = response
        self._stream: HttpStream = response.extensions["network_stream"]
        self._parts = response.iter_stream()
        self._unread = memoryview(b"")
        self._is_closed = False

    def read(self, size: int, deadline: Deadline) -> bytes:
        """Read at most ``size`` bytes of the body, none only at its end.

        Raises:
            HeaderLimitExceeded: A trailer is too large.
            IncompleteBody: The server closed the connection.
            InvalidBody: The encoding of the body is invalid.
            OSError: The connection failed, or the deadline passed.
        """
        if self._is_closed:
            return b""
        if not self._unread:
            self._stream.deadline = deadline
            with _protocol_errors(lambda: IncompleteBody if self._stream.has_ended else InvalidBody):
                self._unread = memoryview(next(self._parts, b""))
        data, self._unread = bytes(self._unread[:size]), self._unread[size:]
        return data

    def close(self) -> None:
        """Close the connection, or if the body was read to its end, return it to the session."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._unread:
            self._stream.deadline = _PAST  # reads the end of a body that has arrived, and nothing more
            with suppress(httpcore2.RemoteProtocolError, OSError):
                next(self._parts, b"")
        self._response.close()

    def __enter__(self) -> Self:
        """Return the response."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the response."""
        self.close()


class _Progress:
    """How far a request has come: a trace of ``httpcore2``."""

    def __init__(self) -> None:
        self.is_new = False
        """Whether it has opened a connection."""
        self.is_at_server = False
        """Whether it has passed the proxy, if there is one."""

    def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.started":
            self.is_new = True
        elif name == "http11.send_request_headers.started":
            self.is_at_server = info["request"].method != b"CONNECT"
        elif name == "proxy.start_tls.started":
            self.is_at_server = True


class HttpSession(Struct, frozen=True, dict=True):
    """The connections with one TLS configuration. Thread-safe.

    Attributes:
        new_context: Creates the TLS context for servers.
        server_name: The name in the servers' certificates; "" for their hosts.

    There are no cookies: Harbor treats clients that accept them as browsers, and asks for CSRF tokens. ``~/.netrc`` is
    not read, since an entry would replace the registry's credentials.
    """

    new_context: Callable[[], ssl.SSLContext]
    server_name: str = ""
    _pools: dict[tuple[bool, Proxy | None], httpcore2.ConnectionPool] = {}
    """The connections by whether they are encrypted, and the proxy."""

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The TLS context for servers; raises the errors of ``new_context``."""
        return self.new_context()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Callable[[], bytes | Body] | None,
        limits: TimeLimits,
        proxy: Proxy | None = None,
        repeatable_headers: Sequence[tuple[str, str]] = (),
        is_repeatable: bool = True,
    ) -> OpenResponse:
        """Send one request, through a proxy unless it is None. Redirects are not followed.

        A connection that has been idle may be dead without this side noticing. If it fails, all idle connections to the
        server are closed, and a repeatable request is sent once more, on a new one.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers.
            body: Creates the content.
            limits: The time that it may take.
            proxy: The proxy.
            repeatable_headers: Headers of which there can be several with the same name.
            is_repeatable: Whether the server may receive the request twice.

        Raises:
            InvalidURL: The URL is invalid.
            Unreachable: The server cannot be reached.
            ProxyError: The proxy cannot be reached, or refuses to connect.
            OSError: The connection failed, or the header takes too long.
            HeaderLimitExceeded, InvalidHeader: The header is too large or invalid.
            ValueError: A header of the request is invalid.
        """
        origin = Origin.from_url(url)
        pool = self._pool(proxy, is_encrypted=origin.scheme == "https")
        server = httpcore2.URL(
            scheme=origin.scheme, host=bracketed(origin.host), port=origin.explicit_port, target=request_target(url)
        )

        def attempt() -> OpenResponse:
            content = body() if body else b""
            fields = {"Host": origin.host_header, **_HEADERS, **headers}
            if body or method in _WITH_BODY:
                fields["Content-Length"] = str(len(content))
            connection, response = limits.current()
            request = httpcore2.Request(
                method,
                server,
                headers=[
                    (name.encode(), value.encode("ascii")) for name, value in (*fields.items(), *repeatable_headers)
                ],
                content=content,
                extensions={
                    "timeout": {"connect": connection, "read": response, "write": response},
                    "sni_hostname": self.server_name or bracketed(origin.host),
                    "trace": progress,
                },
            )
            with _proxy_errors(proxy, progress):
                return _exchange(pool, request, url)

        progress = _Progress()
        try:
            return attempt()
        except OSError:
            if progress.is_new:
                raise
            _close_idle(pool, server.origin)
            if not is_repeatable or not limits.deadline.remaining():
                raise
        progress = _Progress()
        return attempt()

    def close(self) -> None:
        """Close the idle connections."""
        for pool in self._pools.values():
            _close_idle(pool)

    def _pool(self, proxy: Proxy | None, *, is_encrypted: bool) -> httpcore2.ConnectionPool:
        pool = self._pools.get((is_encrypted, proxy))
        if pool is None:
            new = httpcore2.ConnectionPool(
                ssl_context=self.context if is_encrypted else None,
                proxy=_connectable(proxy) if proxy else None,
                max_connections=None,
                max_keepalive_connections=_MAX_IDLE,
                network_backend=Backend(),
            )
            pool = self._pools.setdefault((is_encrypted, proxy), new)
        return pool


def _exchange(pool: httpcore2.ConnectionPool, request: httpcore2.Request, url: str) -> OpenResponse:
    """Send a request over a connection of the pool and return its response."""
    try:
        with _protocol_errors(lambda: InvalidHeader):
            response = pool.handle_request(request)
    except httpcore2.LocalProtocolError as error:
        raise ValueError(str(error)) from error
    stream: HttpStream = response.extensions["network_stream"]
    headers = Headers(response.headers)
    if not stream.has_answered:  # h11 had received it before the request
        response.close()
        raise ConnectionResetError("the server sent a response without a request")
    is_chunked = "transfer-encoding" in headers
    length = None if is_chunked or "content-length" not in headers else int(headers.first("content-length"))
    has_body = request.method != b"HEAD" and response.status not in _BODILESS
    stream.expect_body(length if has_body else 0, is_chunked=is_chunked)
    return OpenResponse(url, response, headers)


def _close_idle(pool: httpcore2.ConnectionPool, origin: httpcore2.Origin | None = None) -> None:
    """Close the idle connections, only those to a server if it is given."""
    for connection in pool.connections:
        if connection.is_idle() and (origin is None or connection.can_handle_request(origin)):
            connection.close()


def _connectable(proxy: Proxy) -> httpcore2.Proxy:
    origin = proxy.origin
    context = client_context() if origin.scheme == "https" else None
    url = httpcore2.URL(scheme=origin.scheme, host=bracketed(origin.host), port=origin.port, target="/")
    return httpcore2.Proxy(url, headers=list(proxy.headers.items()), ssl_context=context)


@contextmanager
def _protocol_errors(kind: Callable[[], type[Exception]]) -> Iterator[None]:
    """Raise our errors for those of ``httpcore2`` and ``h11``: a violation of HTTP as ``kind()``."""
    try:
        yield
    except httpcore2.RemoteProtocolError as error:
        if getattr(error.__cause__, "error_status_hint", 0) == _TOO_LARGE:
            raise HeaderLimitExceeded("the trailer of the response is too large") from error
        violated = kind()
        raise violated("the header violates HTTP" if violated is InvalidHeader else "invalid chunks") from error


@contextmanager
def _proxy_errors(proxy: Proxy | None, progress: _Progress) -> Iterator[None]:
    """Raise ProxyError for the errors before a request has passed the proxy."""
    try:
        yield
    except (httpcore2.ProxyError, *CONNECTION_ERRORS) as error:
        if proxy is None or progress.is_at_server or isinstance(error, ProxyError):
            raise
        if isinstance(error, httpcore2.ProxyError):  # its text begins with the status code
            raise proxy.error(status=int(str(error)[:3])) from None
        raise proxy.error(error=error) from None
