"""A private certificate authority for the tests, created with ``openssl``."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Paths of a certificate and its private key in PEM format."""

    certificate: Path
    key: Path


_EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
"""Arguments of -newkey for keys that are created in a fraction of the time that RSA keys take."""
RSA = ("rsa:2048",)


def certificate_authority(directory: Path, name: str = "Test CA", key: Sequence[str] = _EC) -> Certificate:
    """Create an authority in ``directory``; one with an ``RSA`` key can sign tokens as well."""
    target = Certificate(directory / "ca.pem", directory / "ca.key")
    _openssl(
        *("req", "-x509", "-newkey", *key, "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(target.key), "-out", str(target.certificate)),
    )
    return target


def server_certificate(directory: Path, authority: Certificate, *, alternative_names: bool = True) -> Certificate:
    """Create a certificate for localhost, registry.test and 127.0.0.1, signed by ``authority``.

    Without ``alternative_names``, its common name is localhost, which clients must ignore.
    """
    names = "subjectAltName=DNS:localhost,DNS:registry.test,IP:127.0.0.1\n" if alternative_names else "\n"
    return _signed(authority, Certificate(directory / "server.pem", directory / "server.key"), "localhost", names)


def intermediate_authority(directory: Path, authority: Certificate) -> Certificate:
    """Create an authority whose certificate ``authority`` signs."""
    target = Certificate(directory / "intermediate.pem", directory / "intermediate.key")
    return _signed(authority, target, "Intermediate CA", "basicConstraints=critical,CA:TRUE\n")


def client_certificate(directory: Path, authority: Certificate) -> Certificate:
    """Create a client certificate signed by ``authority``."""
    target = Certificate(directory / "client.cert", directory / "client.key")
    return _signed(authority, target, "client", "extendedKeyUsage=clientAuth\n")


def _signed(authority: Certificate, target: Certificate, name: str, extensions_text: str) -> Certificate:
    request, extensions = target.key.with_suffix(".csr"), target.key.with_suffix(".ext")
    extensions.write_text(extensions_text)
    _openssl(
        *("req", "-newkey", *_EC, "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", str(target.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", "2", "-CAcreateserial", "-extfile", str(extensions)),
        *("-CA", str(authority.certificate), "-CAkey", str(authority.key), "-out", str(target.certificate)),
    )
    return target


def _openssl(*arguments: str) -> None:
    subprocess.run([require("openssl"), *arguments], check=True, capture_output=True)
