"""TLS settings of connections to registries."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import certifi

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator


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
