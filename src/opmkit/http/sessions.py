"""HTTP sessions: pools of connections with the same TLS configuration, through proxies if these are configured."""

from __future__ import annotations

import errno
import os
import ssl
import sys
from base64 import b64encode
from collections import deque
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from opmkit._version import __version__
from opmkit.http.connections import Headers, HttpConnection, InvalidURL, Origin, Proxy, connect, request_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import ReadableBuffer

    from opmkit.http.connections import Body, Deadline


_MAX_IDLE = 16
"""Idle connections to keep per server, at least the number of threads that use it."""
_HEADERS = {"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity", "Accept": "*/*"}
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class OpenResponse:
    """A response whose body can be read. As a context manager, it is closed at the end of the block."""

    def __init__(
        self,
        url: str,
        status: int,
        headers: Headers,
        connection: HttpConnection,
        release: Callable[[HttpConnection], None],
    ) -> None:
        """Describe the response to be read from ``connection``; ``release`` makes the connection available again."""
        self.url = url
        self.status = status
        self.headers: Mapping[str, str] = headers
        self._connection: HttpConnection | None = connection
        self._release = release

    def read(self, size: int, deadline: Deadline) -> bytes:
        """Read at most ``size`` bytes of the body, none only at its end; see `HttpConnection.read`."""
        return self._connection.read(size, deadline) if self._connection else b""

    def close(self) -> None:
        """Close the connection, or if the body was read to its end, return it to the session."""
        connection, self._connection = self._connection, None
        if connection is not None:
            (self._release if connection.finish() else HttpConnection.close)(connection)

    def __enter__(self) -> Self:
        """Return the response."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the response."""
        self.close()


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
    _idle: dict[tuple[Origin, str], deque[HttpConnection]] = {}
    """The idle connections by server and URL of the proxy, that of the last response last."""

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
        body: bytes | Body | None,
        connect_timeout: float,
        timeout: float,
        proxy: str,
        repeatable: Sequence[tuple[str, str]] = (),
    ) -> OpenResponse:
        """Send one request, through a proxy unless its URL is "". Redirects are not followed.

        The errors of ``new_context`` are raised, too. Headers of which there can be several with the same name are in
        ``repeatable``.

        Raises:
            InvalidURL: The URL is invalid.
            Unreachable: The server or the proxy cannot be reached.
            OSError: The connection failed, or the header takes longer than ``timeout``.
            HeaderLimitExceeded, InvalidHeader: The header is too large or invalid.
            ValueError: A header of the request is invalid.
        """
        origin = Origin.from_url(url)
        target = request_target(url)
        fields = {"Host": origin.host_header, **_HEADERS, **headers}
        if body is not None or method in _WITH_BODY:
            fields["Content-Length"] = str(len(body or b""))
        through = _parse_proxy(proxy) if proxy else None
        if through and origin.scheme == "http":
            target = f"http://{origin.host_header}{target}"
            fields |= through.headers
        idle = self._idle.setdefault((origin, proxy), deque())
        connection = _take(idle) or connect(origin, connect_timeout, lambda: self.context, through, self.server_name)
        try:
            response = connection.send(method, target, [*fields.items(), *repeatable], body or b"", timeout)
        except BaseException:
            connection.close()
            raise

        def release(connection: HttpConnection) -> None:
            idle.append(connection)
            if len(idle) > _MAX_IDLE:
                idle.popleft().close()

        return OpenResponse(url, response.status_code, Headers(list(response.headers)), connection, release)

    def close(self) -> None:
        """Close the idle connections."""
        for idle in self._idle.values():
            while connection := _pop(idle):
                connection.close()


def _take(idle: deque[HttpConnection]) -> HttpConnection | None:
    """Remove and return an idle connection that the server has not closed, None if there is none."""
    while connection := _pop(idle):
        if connection.is_alive:
            return connection
        connection.close()
    return None


def _pop(idle: deque[HttpConnection]) -> HttpConnection | None:
    try:
        return idle.pop()
    except IndexError:  # checking for it first would not be thread-safe
        return None


def environment_proxy(url: str) -> str:
    """Return the proxy that the environment sets for a URL, or "" if it sets none."""
    has_settings = sys.platform == "darwin" or any(name.lower().endswith("_proxy") for name in os.environ)
    if not has_settings:
        return ""
    from urllib.request import getproxies  # slow to import

    if not getproxies():
        return ""
    from requests.utils import get_environ_proxies, select_proxy  # slow to import

    proxy = select_proxy(url, get_environ_proxies(url)) or ""
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _parse_proxy(url: str) -> Proxy:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise InvalidURL("unsupported proxy")
    headers = {}
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {b64encode(login.encode('latin-1')).decode()}"
    return Proxy(Origin.from_url(url), headers, client_context)


def client_context(*, verify: bool = True) -> ssl.SSLContext:
    """Return a TLS context with the authorities of the system, or those of certifi if the system has none."""
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not _has_authorities(context):
        import certifi  # slow to import

        context.load_verify_locations(certifi.where())
    return prepare_context(context)


def prepare_context(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set what `HttpConnection` needs in the TLS context of a client, and return it."""
    context.hostname_checks_common_name = False  # as in Go: the names in a certificate are its alternative names
    context.sslsocket_class = _ClientSocket
    context.set_alpn_protocols(["http/1.1"])
    return context


def _has_authorities(context: ssl.SSLContext) -> bool:
    directory = ssl.get_default_verify_paths().capath  # read when a certificate is verified
    return bool(context.cert_store_stats()["x509_ca"] or (directory and any(Path(directory).glob("*.?"))))


class _ClientSocket(ssl.SSLSocket):
    """A TLS socket that fails to write to a closed connection as a plain socket does.

    `HttpConnection` reads the response after a BrokenPipeError. In TLS 1.3 this is where a server's alert arrives that
    refuses the client certificate: it closes the connection after the client has finished the handshake.
    """

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except ssl.SSLEOFError as error:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
