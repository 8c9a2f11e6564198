"""Connections to registries: how many, and which certificates are trusted and shown."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter

from opmkit import __version__
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry.connections import pool_classes
from opmkit.imagetools.registry.provider import Registry
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from pathlib import Path

    import requests

_POOL = 16
"""Connections kept open to one host; as many as threads that use it at a time."""


@dataclass(frozen=True, slots=True)
class TLSConfig:
    """Whether a server's certificate is checked, by which authorities beside the system's, and who we are to it."""

    verify: bool = True
    certificates: Certificates = field(default_factory=Certificates)

    def without_client(self) -> TLSConfig:
        """The same without certificates of our own."""
        return replace(self, certificates=replace(self.certificates, clients=()))

    def context(self) -> ssl.SSLContext:
        """What TLS connections are made with; ImageToolsError for a file that can't be used."""
        context = ssl.create_default_context() if self.verify else _unverified()
        for path in self.certificates.authorities if self.verify else ():
            with _Using(path, "holds no PEM certificate", "give a PEM file of certificate authorities"):
                context.load_verify_locations(cafile=path)
        for path, key in self.certificates.clients:
            with _Using(path, f"can't be used with {key.name}", "give a PEM certificate and its key, not encrypted"):
                context.load_cert_chain(path, key, password=lambda: "")
        return context


class SessionPool:
    """The sessions of a client, one for each :class:`TLSConfig`; safe to share between threads."""

    def __init__(self, *, plain_http: bool) -> None:
        """``plain_http`` is for clients that don't use TLS, and need no certificates loaded."""
        self._plain_http = plain_http
        self._sessions: dict[TLSConfig, requests.Session] = {}
        self._lock = threading.Lock()

    def session(self, trust: TLSConfig) -> requests.Session:
        """The session for a trust; ImageToolsError for certificates that can't be used."""
        with self._lock:
            if trust not in self._sessions:
                self._sessions[trust] = self._new(trust)
            return self._sessions[trust]

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._sessions.values():
                session.close()

    def _new(self, trust: TLSConfig) -> requests.Session:
        """A session of oras', with its cookie policy.

        ``.netrc`` is never read, since requests would let it take the place of the registry's credentials. Redirects
        are not followed: requests reads their bodies to the end, however long, even if told not to follow.
        """
        session: requests.Session = Registry(insecure=self._plain_http, tls_verify=trust.verify).session
        session.trust_env = False
        session.get_redirect_target = lambda response: None  # type: ignore[assignment,method-assign]
        session.headers.update({"User-Agent": f"opmkit/{__version__}", "Accept-Encoding": "identity"})
        adapter = _Adapter(None if self._plain_http else trust.context())
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return session


class _Adapter(HTTPAdapter):
    """Keeps enough connections, which bound response headers, and makes those with TLS by ``context``."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_maxsize=_POOL)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **kwargs, ssl_context=self._context)
        self.poolmanager.pool_classes_by_scheme = pool_classes()

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs, ssl_context=self._context)
        manager.pool_classes_by_scheme = pool_classes()
        return manager


@dataclass(frozen=True, slots=True)
class _Using:
    """Turns what goes wrong with a file of certificates into an error that names it."""

    path: Path
    reason: str
    hint: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            reason = self.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise ImageToolsError(f"certificate file {self.path}: {reason}", hint=self.hint) from error


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
