"""How registries are spoken to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry_config import Certificates

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The choices of one :class:`RegistryClient`.

    ``plain_http`` and ``verify_tls`` hold for every registry, whatever the settings of the machine say. Without
    ``verify_tls`` every registry is insecure in the sense of registries.conf: any certificate is accepted, and plain
    HTTP where HTTPS is not spoken. ``ca_file``
    (PEM) is trusted beside the certificates that are trusted anyway. ``cert_dir`` (``*.crt``, ``*.cert`` with
    ``*.key``) takes the place of the directories for single registries. ``authfile`` is the only place for credentials
    where it is given. ``deadline`` is how many seconds one call may go on, retries and waits included; the transfer of
    a blob gets more by its size. Blobs above ``chunked_above`` bytes are sent in pieces of ``chunk_size`` bytes,
    smaller ones in one request.
    """

    plain_http: bool = False
    verify_tls: bool = True
    ca_file: Path | None = None
    cert_dir: Path | None = None
    authfile: Path | None = None
    deadline: float = 120.0
    chunked_above: int = 1 << 30
    chunk_size: int = 16 << 20

    def certificates(self) -> Certificates:
        """Those of ``ca_file`` and ``cert_dir``; raises ImageToolsError if there is no such directory."""
        given = Certificates((self.ca_file,) if self.ca_file else ())
        if self.cert_dir is None:
            return given
        found = Certificates.read(self.cert_dir)
        if found is None:
            raise ImageToolsError(
                f"certificate directory {self.cert_dir} is not there",
                hint="name one that holds *.crt for authorities, or *.cert and *.key for yourself",
            )
        return found.with_more(given)
