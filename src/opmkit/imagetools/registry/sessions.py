"""HTTP sessions and their connections, which limit the time, size and number of responses and count bytes."""

from __future__ import annotations

import errno
import http.client
import io
import os
import socket
import ssl
import threading
import time
from collections.abc import Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

import certifi
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from opmkit._version import __version__
from opmkit.core import interrupts
from opmkit.core.progress import NO_TRANSFERS, TransferObserver
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import ReadableBuffer, WriteableBuffer

    from opmkit.imagetools.registry.retry import Deadline


_POOL_SIZE = 16
"""Idle connections to keep per host, at least the number of threads that use it."""
_HEADERS = {"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity", "Accept": "*/*"}


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A response whose body can be read from ``raw``. As a context manager, it is closed at the end of the block."""

    url: str
    raw: urllib3.BaseHTTPResponse

    @property
    def status(self) -> int:
        """The status code."""
        return self.raw.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are case-insensitive."""
        return self.raw.headers

    def close(self) -> None:
        """Close the connection, or if the body was read to its end, return it to the session."""
        self.raw.close()
        self.raw.release_conn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class HttpSession:
    """The connections with one TLS configuration. Thread-safe.

    There are no cookies: Harbor treats clients that accept them as browsers, and asks for CSRF tokens. ``~/.netrc`` is
    not read, since an entry would replace the registry's credentials.
    """

    config: TLSConfig
    _managers: dict[tuple[str, bool], urllib3.PoolManager] = field(default_factory=dict)

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The SSL context.

        Raises:
            ImageToolsError: A certificate file cannot be read or is invalid.
        """
        return self.config.context()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | Iterable[bytes] | None,
        timeout: urllib3.Timeout,
        proxy: str,
    ) -> OpenResponse:
        """Send one request, through a proxy unless its URL is "". Redirects are not followed.

        Raises:
            ImageToolsError: A certificate file cannot be read or is invalid.
            urllib3.exceptions.HTTPError: The request failed, or the URL is invalid.
            ValueError: A header is invalid.
            OSError: The connection failed.
        """
        if isinstance(body, Sized):  # urllib3 knows that of bytes only
            headers = {"Content-Length": str(len(body)), **headers}
        response = self._manager(proxy, is_encrypted=url.startswith("https:")).urlopen(
            method,
            url,
            headers={**_HEADERS, **headers},
            body=body,
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        return OpenResponse(url, response)

    def close(self) -> None:
        """Close the idle connections."""
        for manager in self._managers.values():
            manager.clear()

    def _manager(self, proxy: str, *, is_encrypted: bool) -> urllib3.PoolManager:
        key = proxy, is_encrypted or proxy.startswith("https:")
        manager = self._managers.get(key)
        return manager or self._managers.setdefault(key, _create_manager(proxy, self.context if key[1] else None))


class SessionPool:
    """The HTTP sessions of a client, one per `TLSConfig`. Thread-safe."""

    def __init__(self) -> None:
        """Create a pool without connections."""
        self._sessions: dict[TLSConfig, HttpSession] = {}
        self._lock = threading.Lock()

    def session(self, config: TLSConfig) -> HttpSession:
        """Return the session for a configuration."""
        with self._lock:
            return self._sessions.setdefault(config, HttpSession(config))

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._sessions.values():
                session.close()


def environment_proxy(url: str) -> str:
    """Return the proxy that the environment sets for a URL, or "" if it sets none."""
    if not getproxies():
        return ""
    from requests.utils import get_environ_proxies, select_proxy  # slow to import

    proxy = select_proxy(url, get_environ_proxies(url)) or ""
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _create_manager(proxy: str, context: ssl.SSLContext | None) -> urllib3.PoolManager:
    manager: urllib3.PoolManager
    if proxy:
        manager = urllib3.ProxyManager(
            proxy, maxsize=_POOL_SIZE, ssl_context=context, proxy_headers=_proxy_headers(proxy)
        )
    else:
        manager = urllib3.PoolManager(maxsize=_POOL_SIZE, ssl_context=context)
    manager.pool_classes_by_scheme = dict(pool_classes())
    return manager


def _proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    user, password = unquote(parts.username), unquote(parts.password or "")
    return dict(urllib3.make_headers(proxy_basic_auth=f"{user}:{password}"))


@dataclass(frozen=True, slots=True)
class TLSConfig:
    """Verification of server certificates: whether it is enabled, additional authorities, and client certificates."""

    verify: bool = True
    certificates: Certificates = field(default_factory=Certificates)

    def without_client_certificates(self) -> TLSConfig:
        """Return a copy without client certificates."""
        return replace(self, certificates=replace(self.certificates, clients=()))

    def context(self) -> ssl.SSLContext:
        """Create an SSL context.

        Raises:
            ImageToolsError: A certificate file cannot be read or is invalid.
        """
        context = _default_context() if self.verify else _unverified_context()
        context.sslsocket_class = _ClientSocket
        for path in self.certificates.authorities if self.verify else ():
            with _certificate_errors(path, "not a PEM certificate", "give a PEM file of certificate authorities"):
                context.load_verify_locations(cafile=path)
        for path, key in self.certificates.clients:
            with _certificate_errors(
                path, f"cannot be loaded with {key.name}", "give a PEM certificate and its unencrypted key"
            ):
                context.load_cert_chain(path, key, password=lambda: "")
        return context


class _ClientSocket(ssl.SSLSocket):
    """A TLS socket that fails to write to a closed connection as a plain socket does.

    urllib3 reads the response after a BrokenPipeError. In TLS 1.3 this is where a server's alert arrives that refuses
    the client certificate: it closes the connection after the client has finished the handshake.
    """

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except ssl.SSLEOFError as error:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error


@contextmanager
def _certificate_errors(path: Path, reason: str, hint: str) -> Iterator[None]:
    """Translate OSErrors about a file of certificates; ``reason`` is that of SSL errors."""
    try:
        yield
    except OSError as error:
        reason = reason if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ImageToolsError(f"certificate file {path}: {reason}", hint=hint) from error


def _default_context() -> ssl.SSLContext:
    """Return a context with the authorities of the system, or those of certifi if the system has none."""
    context = ssl.create_default_context()
    directory = ssl.get_default_verify_paths().capath  # read when a certificate is verified
    if not context.cert_store_stats()["x509_ca"] and not (directory and any(Path(directory).glob("*.?"))):
        context.load_verify_locations(certifi.where())
    return context


def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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


@dataclass(frozen=True, slots=True)
class TransferStats:
    """Bytes of bodies read from and written to the network, without headers but including failed attempts."""

    read: int = 0
    written: int = 0


class TransferCounter:
    """A thread-safe counter of transferred bytes."""

    def __init__(self, observer: TransferObserver = NO_TRANSFERS) -> None:
        """Start from zero, and report each count to ``observer``."""
        self._observer = observer
        self._stats = TransferStats()
        self._lock = threading.Lock()

    @property
    def stats(self) -> TransferStats:
        """The current counts."""
        return self._stats

    def count(self, *, read: int = 0, written: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self._stats = TransferStats(self._stats.read + read, self._stats.written + written)
        self._observer.transferred(read + written)
