"""TLS configuration of a server."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from opmkit.core.files import read_limited
from opmkit.core.hints import Hint
from opmkit.index.hint_terms import IndexSetting
from opmkit.server.errors import ServerError

if TYPE_CHECKING:
    from opmkit.server.settings import TlsFiles


def tls_context(files: TlsFiles, protocol: str = "h2") -> ssl.SSLContext:
    """Return the TLS context of a server for a protocol; raises ServerError for files that cannot be used together."""
    for path in (files.certificate, files.key):
        try:
            read_limited(path)
        except OSError as error:  # errors of OpenSSL do not name the file
            raise ServerError(
                f"{path}: {error.strerror}",
                hint=Hint("check {} and {}: both are PEM files", IndexSetting.TLS_CERT, IndexSetting.TLS_KEY),
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([protocol])
    try:
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ServerError(
            f"{files.certificate}, {files.key}: invalid certificate or key: {error}",
            hint="give a PEM certificate with its chain, and its private key without a password",
        ) from error
    return context
