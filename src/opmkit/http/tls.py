"""TLS contexts of HTTP clients, with the trust that Go has."""

from __future__ import annotations

import errno
import os
import re
import ssl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core import interrupts
from opmkit.http.streams import shut_down

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")
"""The names under which OpenSSL finds certificates in a directory."""


def client_context(*, verify: bool = True) -> ssl.SSLContext:
    """Return a TLS context with the authorities of the system, or those of certifi if the system has none."""
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return prepare_context(context)
    for path in _unhashed_certificates():
        with suppress(OSError):  # as Go, which reads what it can
            context.load_verify_locations(path)
    if not _has_authorities(context):
        import certifi  # slow to import

        context.load_verify_locations(certifi.where())
    return prepare_context(context)


def prepare_context(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set what `HttpSession` needs in the TLS context of a client, and what Go does, and return it."""
    context.hostname_checks_common_name = False  # as in Go: the names in a certificate are its alternative names
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any trusted certificate, not only one that signed itself
    # Python 3.13 requires extensions that many authorities lack; Go does not
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.sslsocket_class = _ClientSocket
    return context


def _unhashed_certificates() -> Iterator[Path]:
    """Yield the files in SSL_CERT_DIR that OpenSSL does not find by their names, or by those of links to them."""
    for directory in filter(None, os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)):
        with suppress(OSError):
            paths = sorted(Path(directory).iterdir())
            found = {path.resolve() for path in paths if _HASHED.fullmatch(path.name)}
            yield from (path for path in paths if path.resolve() not in found)


def _has_authorities(context: ssl.SSLContext) -> bool:
    directory = ssl.get_default_verify_paths().capath  # read when a certificate is verified
    return bool(context.cert_store_stats()["x509"] or (directory and any(Path(directory).glob("*.?"))))


class _ClientSocket(ssl.SSLSocket):
    """A TLS socket whose handshake a signal cancels, and that fails to write to a closed connection as a plain one.

    The response is read after a BrokenPipeError. In TLS 1.3 this is where a server's alert arrives that refuses the
    client certificate: it closes the connection after the client has finished the handshake.
    """

    def do_handshake(self, block: bool = False) -> None:
        interrupts.cancel_on_signal(self, shut_down)
        super().do_handshake(block)

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except ssl.SSLEOFError as error:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
