"""Options of the registry client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.progress import NO_TRANSFERS, TransferObserver
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Options of a `RegistryClient`.

    Attributes:
        plain_http: Use HTTP instead of HTTPS for all registries.
        verify_tls: Whether to verify certificates. Without verification all registries are insecure in the sense of
            registries.conf: any certificate is accepted, and HTTP if the registry does not support HTTPS.
        ca_file: A PEM file of certificate authorities to trust in addition to those of the system and certs.d.
        cert_dir: A directory with ``*.crt``, and ``*.cert`` with ``*.key``, instead of certs.d.
        authfile: The only credentials file to use.
        signature_policy: The policy.json that images must satisfy, instead of that of the user or the system.
        insecure_policy: Read no policy.json: accept every image.
        deadline: Seconds for a call, including retries; transfers of blobs get more time by their size.
        chunked_above: Size of a blob in bytes above which it is sent in chunks instead of one request.
        chunk_size: Size of a chunk in bytes.
        transfers: An observer of the reads of images and the transferred bytes.
    """

    plain_http: bool = False
    verify_tls: bool = True
    ca_file: Path | None = None
    cert_dir: Path | None = None
    authfile: Path | None = None
    signature_policy: Path | None = None
    insecure_policy: bool = False
    deadline: float = 120.0
    chunked_above: int = 1 << 30
    chunk_size: int = 16 << 20
    transfers: TransferObserver = field(default=NO_TRANSFERS, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Raise ValueError for options that exclude each other."""
        if self.signature_policy is not None and self.insecure_policy:
            raise ValueError("signature_policy and insecure_policy exclude each other")

    def certificates(self) -> Certificates:
        """Return the certificates of ``ca_file`` and ``cert_dir``.

        Raises:
            ImageToolsError: ``cert_dir`` does not exist.
        """
        certificates = Certificates((self.ca_file,) if self.ca_file else ())
        if self.cert_dir is None:
            return certificates
        directory = Certificates.read(self.cert_dir)
        if directory is None:
            raise ImageToolsError(
                f"certificate directory {self.cert_dir} does not exist",
                hint="name a directory with *.crt of authorities, or *.cert and *.key of a client",
            )
        return directory.merge(certificates)
