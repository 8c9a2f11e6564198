"""HTTP sessions: connections with the same TLS settings, directly and through proxies."""

from __future__ import annotations

import errno
import os
import ssl
import threading
from collections.abc import Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

import certifi
import urllib3

from opmkit._version import __version__
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry.connections import pool_classes
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import ReadableBuffer


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
