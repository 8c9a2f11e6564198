"""How a catalog is served."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_DEFAULT_PROCESSES = 2
"""More would each take memory that a catalog, most of the time idle, is not worth."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files with the certificate of a server, with those that vouch for it, and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of one process; times are in seconds.

    At most ``connections`` are open. One without progress for ``idle`` is closed, or for ``crowded_idle`` while more
    than three quarters of them are open. A client has ``greeting`` to send its preface and settings, and to take what
    is left to send when its connection ends.
    """

    connections: int = 1000
    idle: float = 1800
    crowded_idle: float = 60
    greeting: float = 20


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a catalog is served.

    ``port`` 0 takes a free one. ``processes`` share the port. After ``timeout`` seconds the server stops by itself, for
    None never. When it stops it lets calls in progress go on for ``grace`` seconds at most.
    """

    port: int = 50051
    processes: int = 1
    timeout: float | None = None
    grace: float = 20
    access_log: bool = False
    tls: TlsFiles | None = None
    limits: ConnectionLimits = ConnectionLimits()


def default_processes() -> int:
    """As many processes as there are processors that this one may use, within reason."""
    return min(len(os.sched_getaffinity(0)), MAX_DEFAULT_PROCESSES)
