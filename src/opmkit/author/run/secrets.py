"""Secrets of a cluster that this program uses as well."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from opmkit.author.run.errors import OlmError
from opmkit.author.run.objects import text
from opmkit.kube.resources import SECRET

if TYPE_CHECKING:
    from opmkit.kube import Cluster

CERTIFICATE_KEY = "cert.pem"


def read_certificates(cluster: Cluster, name: str) -> bytes:
    """Return the certificate authorities in a Secret, in PEM.

    Raises:
        OlmError: The Secret does not exist, or does not have the key ``cert.pem``.
        ClusterError: The cluster cannot be reached or rejects the request.
    """
    found = cluster.find(SECRET, name)
    where = f"Secret {cluster.namespace}/{name}"
    if found is None:
        raise OlmError(f"{where}: not found", hint=f"create it with the key {CERTIFICATE_KEY}")
    try:
        certificates = base64.b64decode(text(found, "data", CERTIFICATE_KEY), validate=True)
    except ValueError:
        certificates = b""
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise OlmError(
            f"{where}: no certificate in the key {CERTIFICATE_KEY}", hint="store certificates in PEM under this key"
        )
    return certificates
