"""How registries are spoken to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The choices of one :class:`RegistryClient`.

    ``ca_file`` (PEM) is trusted beside the system's certificates. ``authfile`` is the only place for credentials where
    it is given. ``deadline`` is how many seconds one call may go on, retries and waits included; the transfer of a
    blob gets more by its size. Blobs above ``chunked_above`` bytes are sent in pieces of ``chunk_size`` bytes, smaller
    ones in one request.
    """

    plain_http: bool = False
    verify_tls: bool = True
    ca_file: Path | None = None
    authfile: Path | None = None
    deadline: float = 120.0
    chunked_above: int = 1 << 30
    chunk_size: int = 16 << 20
