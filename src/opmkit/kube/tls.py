"""TLS settings of connections to API servers."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from opmkit.kube.connection import ClientCertificate, Server


def tls_context(server: Server, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Return the context for connections to a server.

    Raises:
        ClusterError: if the authorities or the client certificate are invalid.
    """
    try:
        context = ssl.create_default_context(cadata=server.authorities or None)
    except (ssl.SSLError, ValueError) as error:
        raise _invalid("certificate authorities", error) from error
    # Python 3.13 requires extensions that the authorities of many clusters lack; Go does not
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not server.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load a client certificate, which the ssl module can only read from files."""
    with tempfile.TemporaryDirectory(prefix="opmkit-") as directory:
        paths = Path(directory, "certificate"), Path(directory, "key")
        for path, content in zip(paths, (certificate.certificate, certificate.key), strict=True):
            path.write_text(content, "ascii")
        try:
            context.load_cert_chain(*paths, password=_refuse_password)
        except (ssl.SSLError, ValueError) as error:
            raise _invalid("client certificate", error) from error


def _refuse_password() -> str:
    """Fail for an encrypted key; by default the ssl module asks on the terminal."""
    raise ValueError("the key is encrypted")


def _invalid(subject: str, error: Exception) -> ClusterError:
    cause = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
    return ClusterError(f"invalid {subject} in the kubeconfig: {cause}", hint="use the PEM format")
