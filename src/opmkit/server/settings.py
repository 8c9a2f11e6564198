"""Settings of the catalog server."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path


MAX_DEFAULT_PROCESSES = 2
"""Catalogs are idle most of the time, which does not justify the memory of more processes."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the certificate of the server, followed by its chain, and the private key."""

    certificate: Path
    key: Path


class ConnectionLimits(Struct, frozen=True):
    """Limits for the connections of one process; times are in seconds.

    At most ``connections`` are open. A connection without progress is closed after ``idle``, or after ``crowded_idle``
    while more than three quarters of the connections are in use. A client must send its preface and settings within
    ``greeting``, and has the same time to receive what remains to be sent when its connection ends.
    """

    connections: int = 1000
    idle: float = 1800
    crowded_idle: float = 60
    greeting: float = 20


def is_catalog_name(name: str) -> bool:
    """Return whether a ClusterCatalog can have the name."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def default_processes() -> int:
    """Return the number of available processors, but at most `MAX_DEFAULT_PROCESSES`."""
    return min(len(os.sched_getaffinity(0)), MAX_DEFAULT_PROCESSES)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Settings of the web API: its port (0 selects a free one), and the catalog's name in URLs, or "" for any."""

    port: int
    catalog: str = ""

    @property
    def has_valid_name(self) -> bool:
        """Whether a ClusterCatalog can have the name."""
        return not self.catalog or is_catalog_name(self.catalog)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a server.

    ``port`` 0 selects a free one. ``processes`` workers share the port, by default one for each processor, but at most
    `MAX_DEFAULT_PROCESSES`. The server stops after ``timeout`` seconds; None is unlimited. After the signal to stop,
    calls in progress continue for at most ``grace`` seconds.
    """

    port: int = 50051
    processes: int = field(default_factory=default_processes)
    timeout: float | None = None
    grace: float = 20
    access_log: bool = False
    tls: TlsFiles | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    http: HttpSettings | None = None


class ServerError(CatalogError):
    """A server that cannot start or continue: its port is in use, its certificate invalid, or a worker has ended."""


class QueryFailed(CatalogError):
    """A query that has no response; the client receives the message with the status code UNKNOWN."""


class InvalidQuery(QueryFailed):
    """A query with an invalid argument; the client receives the message with the status code INVALID_ARGUMENT."""
