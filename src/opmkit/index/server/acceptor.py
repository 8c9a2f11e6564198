"""Accept loop of a server process: limits the number of connections, and waits when descriptors run out.

asyncio's own loop tries, fails and logs a traceback up to once per place in the backlog, and schedules as many retries.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Collection

    from opmkit.index.server.settings import ConnectionLimits

_log = logging.getLogger(__name__)

_BACKLOG = 1024
_BATCH = 64
"""Connections that are accepted before others get their turn."""
_PAUSE = 1.0
"""Seconds without accepting after descriptors or memory ran out."""
_LOG_INTERVAL = 60.0
"""Seconds between two log records about the same shortage."""
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RESERVED_DESCRIPTORS = 64
"""Descriptors that are left for everything else."""


class Acceptor:
    """Accepts connections on a socket, as long as there are fewer than ``limits`` allow."""

    def __init__(
        self,
        listening: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        opened: Collection[object],
        limits: ConnectionLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Make a protocol by ``connect`` for each connection; ``opened`` are those that exist."""
        self._socket = listening
        self._connect = connect
        self._opened = opened
        self._limits = limits
        self._tls = tls
        self._most = max_connections(limits.connections)
        self._connecting: dict[socket.socket, asyncio.Protocol | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._logged: dict[str, float] = {}

    def start(self) -> None:
        """Listen."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._socket.listen(_BACKLOG)
        self._resume()

    def close(self) -> None:
        """Accept nothing more, and give up connections that are not made yet."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._tasks:
            task.cancel()

    @property
    def crowded(self) -> bool:
        """Whether more than three quarters of the connections are in use."""
        return 4 * self._count() > 3 * self._most

    def _count(self) -> int:
        """Return the number of connections; one that is made already may still have its task."""
        return len(self._opened) + sum(protocol not in self._opened for protocol in self._connecting.values())

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._back_off(error)
                return
            if self._count() >= self._most:
                connection.close()
                self._warn("connection refused: too many are open", limit=self._most)
                continue
            task = self._loop.create_task(self._open(connection))
            self._connecting[connection] = None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, connection: socket.socket) -> None:
        def connect() -> asyncio.Protocol:
            protocol = self._connecting[connection] = self._connect()
            return protocol

        connection.setblocking(False)
        timeout = None if self._tls is None else self._limits.greeting
        try:
            await self._loop.connect_accepted_socket(connect, connection, ssl=self._tls, ssl_handshake_timeout=timeout)
        except OSError as error:  # also of TLS
            connection.close()
            _log.debug("connection failed: %s", error)
        finally:
            del self._connecting[connection]

    def _back_off(self, error: OSError) -> None:
        self._warn("can't accept connections, trying again each second", cause=os.strerror(error.errno or 0))
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(_PAUSE, self._resume)

    def _warn(self, message: str, **fields: object) -> None:
        now = time.monotonic()
        if now - self._logged.get(message, -_LOG_INTERVAL) >= _LOG_INTERVAL:
            self._logged[message] = now
            _log.warning(message, extra={"fields": fields})


def max_connections(wanted: int) -> int:
    """Return how many connections fit into the limit on descriptors, at most ``wanted``."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft - _RESERVED_DESCRIPTORS, soft // 2))
