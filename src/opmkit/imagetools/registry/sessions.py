"""HTTP sessions for registries by their TLS configuration, and counters of bytes."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from opmkit.core.progress import NO_TRANSFERS, TransferObserver
from opmkit.http.sessions import HttpSession
from opmkit.http.tls import client_context
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class SessionPool:
    """The HTTP sessions of a client, one per `TLSConfig`. Thread-safe."""

    def __init__(self) -> None:
        """Create a pool without connections."""
        self._sessions: dict[TLSConfig, HttpSession] = {}
        self._lock = threading.Lock()

    def session(self, config: TLSConfig) -> HttpSession:
        """Return the session for a configuration."""
        with self._lock:
            return self._sessions.setdefault(config, HttpSession(config.context))

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._sessions.values():
                session.close()


class TLSConfig(Struct, frozen=True):
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
        context = client_context(verify=self.verify)
        for path in self.certificates.authorities if self.verify else ():
            with _certificate_errors(path, "not a PEM certificate", "give a PEM file of certificate authorities"):
                context.load_verify_locations(cafile=path)
        for path, key in self.certificates.clients:
            with _certificate_errors(
                path, f"cannot be loaded with {key.name}", "give a PEM certificate and its unencrypted key"
            ):
                context.load_cert_chain(path, key, password=lambda: "")
        return context


@contextmanager
def _certificate_errors(path: Path, reason: str, hint: str) -> Iterator[None]:
    """Translate OSErrors about a file of certificates; ``reason`` is that of SSL errors."""
    try:
        yield
    except OSError as error:
        reason = reason if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise ImageToolsError(f"certificate file {path}: {reason}", hint=hint) from error


class TransferStats(Struct, frozen=True):
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
