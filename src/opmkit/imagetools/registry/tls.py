"""HTTP sessions and their TLS settings."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter

from opmkit._version import __version__
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry.connections import pool_classes
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POOL_SIZE = 16
"""Idle connections to keep per host, at least the number of threads that use it."""


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
        context = ssl.create_default_context() if self.verify else _unverified_context()
        for path in self.certificates.authorities if self.verify else ():
            with _certificate_errors(path, "not a PEM certificate", "give a PEM file of certificate authorities"):
                context.load_verify_locations(cafile=path)
        for path, key in self.certificates.clients:
            with _certificate_errors(
                path, f"cannot be loaded with {key.name}", "give a PEM certificate and its unencrypted key"
            ):
                context.load_cert_chain(path, key, password=lambda: "")
        return context


class SessionPool:
    """The HTTP sessions of a client, one per `TLSConfig`. Thread-safe."""

    def __init__(self, *, plain_http: bool) -> None:
        """Create a pool; with ``plain_http`` no certificates are loaded."""
        self._plain_http = plain_http
        self._sessions: dict[TLSConfig, requests.Session] = {}
        self._lock = threading.Lock()

    def session(self, config: TLSConfig) -> requests.Session:
        """Return the session for a configuration.

        Raises:
            ImageToolsError: A certificate file cannot be read or is invalid.
        """
        with self._lock:
            if config not in self._sessions:
                self._sessions[config] = self._create(config)
            return self._sessions[config]

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._sessions.values():
                session.close()

    def _create(self, config: TLSConfig) -> requests.Session:
        session = _Session()
        session.trust_env = False  # an entry in ~/.netrc would replace the registry's credentials
        # Harbor treats clients that accept cookies as browsers, and asks for CSRF tokens.
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.headers.update({"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity"})
        adapter = _Adapter(None if self._plain_http else config.context())
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return session


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: requests reads the bodies of redirects without a limit, even with allow_redirects=False."""


class _Adapter(HTTPAdapter):
    """A transport adapter with connections that limit response headers."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_maxsize=_POOL_SIZE)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **kwargs, ssl_context=self._context)
        self.poolmanager.pool_classes_by_scheme = pool_classes()

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs, ssl_context=self._context)
        manager.pool_classes_by_scheme = pool_classes()
        return manager


@contextmanager
def _certificate_errors(path: Path, reason: str, hint: str) -> Iterator[None]:
    """Translate OSErrors about a file of certificates; ``reason`` is that of SSL errors."""
    try:
        yield
    except OSError as error:
        reason = reason if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ImageToolsError(f"certificate file {path}: {reason}", hint=hint) from error


def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
