"""Accept loop of a server process: shared ports, the number of connections, and pauses without descriptors.

At the limit, a connection that is not in use gives way to the new one.

The loop of asyncio logs a traceback for each failed attempt, up to once per connection in the backlog, and schedules as
many retries.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import time
from enum import IntEnum
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint, Setting
from opmkit.index.hint_terms import IndexSetting
from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection
    from types import TracebackType

    from opmkit.server.settings import ConnectionLimits


_log = logging.getLogger(__name__)

NEW_SECONDS = 1.0
"""Seconds for a client to send something before its connection gives way to others."""
_BACKLOG = 1024
_MAX_BATCH = 64
"""Connections that are accepted before other events are handled."""
_RETRY_DELAY = 1.0
"""Seconds without accepting after descriptors or memory ran out."""
_LOG_INTERVAL = 60.0
"""Seconds between two log records with the same message."""
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RESERVED_DESCRIPTORS = 64
"""Descriptors that are not used for connections."""


class Use(IntEnum):
    """Degrees of use of an idle connection, in the order in which connections give way."""

    SILENT = 0
    """The client has sent nothing for some time."""
    UNUSED = 1
    """The client has begun the conversation, without a request."""
    NEW = 2
    """The client has just connected."""
    USED = 3
    """The client has sent a request before."""


class Acceptor:
    """Acceptor of the connections on a socket, as long as the limits permit more."""

    def __init__(
        self,
        listening: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        connections: Collection[object],
        limits: ConnectionLimits,
        tls: ssl.SSLContext | None = None,
        *,
        close_idle: Callable[[], bool] | None = None,
    ) -> None:
        """Accept connections.

        Args:
            listening: The socket.
            connect: Creates the protocol of a connection.
            connections: Those that are open.
            limits: Limits on their number and times.
            tls: Settings of TLS, if any.
            close_idle: Closes a connection that is not in use, if there is one, and returns whether it did.
        """
        self._socket = listening
        self._connect = connect
        self._connections = connections
        self._limits = limits
        self._tls = tls
        self._close_idle = close_idle
        self._max_connections = max_connections(limits.connections)
        self._connecting: dict[socket.socket, asyncio.Protocol | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._logged: dict[str, float] = {}

    def start(self) -> None:
        """Listen and accept connections."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._socket.listen(_BACKLOG)
        self._resume()

    def close(self) -> None:
        """Stop accepting, and drop connections that are not established yet."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._tasks:
            task.cancel()
        for connection, protocol in self._connecting.items():
            if protocol is None:  # its task has not started, and a cancelled task never starts
                connection.close()

    @property
    def is_crowded(self) -> bool:
        """Whether more than three quarters of the connections are in use."""
        return 4 * self._count() > 3 * self._max_connections

    def _count(self) -> int:
        """Return the number of connections; an established one may still have its task."""
        return len(self._connections) + sum(protocol not in self._connections for protocol in self._connecting.values())

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_MAX_BATCH):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._pause(error)
                return
            if self._count() >= self._max_connections and not self._make_room():
                connection.close()
                continue
            task = self._loop.create_task(self._open(connection))
            self._connecting[connection] = None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _make_room(self) -> bool:
        """Close an idle connection; return whether there was one."""
        if self._close_idle and self._close_idle():
            self._warn("idle connections closed: too many are open", limit=self._max_connections)
            return True
        self._warn("connection refused: too many are open", limit=self._max_connections)
        return False

    async def _open(self, connection: socket.socket) -> None:
        def connect() -> asyncio.Protocol:
            protocol = self._connecting[connection] = self._connect()
            return protocol

        connection.setblocking(False)
        timeout = None if self._tls is None else self._limits.greeting
        try:
            await self._loop.connect_accepted_socket(connect, connection, ssl=self._tls, ssl_handshake_timeout=timeout)
        except OSError as error:  # includes TLS errors
            connection.close()
            _log.debug("connection failed: %s", error)
        finally:
            del self._connecting[connection]

    def _pause(self, error: OSError) -> None:
        self._warn("cannot accept connections, retrying each second", cause=os.strerror(error.errno or 0))
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(_RETRY_DELAY, self._resume)

    def _warn(self, message: str, **fields: object) -> None:
        now = time.monotonic()
        if now - self._logged.get(message, -_LOG_INTERVAL) >= _LOG_INTERVAL:
            self._logged[message] = now
            _log.warning(message, extra={"fields": fields})


def max_connections(wanted: int) -> int:
    """Return how many connections the limit on descriptors permits, at most ``wanted``."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft - _RESERVED_DESCRIPTORS, soft // 2))


class ReservedPort:
    """A TCP port on all addresses of this machine, reserved for processes of this user.

    The holder does not listen. It binds the port exclusively, which fails if it is in use, and then permits sharing.
    If sharing was permitted from the start, two servers would silently take turns.
    """

    def __init__(self, wanted: int, setting: Setting = IndexSetting.PORT) -> None:
        """Reserve the port ``wanted`` of a setting, or a free one for 0; raises ServerError."""
        self._socket = _bind(wanted, setting)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.number: int = self._socket.getsockname()[1]

    def __enter__(self) -> ReservedPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()


def bind_shared(port: int) -> socket.socket:
    """Return a socket that is bound to a reserved port; raises ServerError."""
    return _bind(port, IndexSetting.PORT, shared=True)


def _bind(port: int, setting: Setting, *, shared: bool = False) -> socket.socket:
    """Bind the port of all IPv6 and IPv4 addresses, or of the latter alone if IPv6 is unavailable."""
    try:
        return _bind_family(socket.AF_INET6, port, shared=shared)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise _bind_error(port, setting, error) from error
    try:
        return _bind_family(socket.AF_INET, port, shared=shared)
    except OSError as error:
        raise _bind_error(port, setting, error) from error


def _bind_family(family: socket.AddressFamily, port: int, *, shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio checks the protocol
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # earlier connections may be in TIME_WAIT
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # inherited by connections
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound


def _bind_error(port: int, setting: Setting, error: OSError) -> ServerError:
    if error.errno == errno.EADDRINUSE:
        return ServerError(
            f"port {port}: already in use by another program",
            hint=Hint.any_of("stop that program", Hint("choose another port with {} (0 selects a free one)", setting)),
        )
    return ServerError(
        f"port {port}: {os.strerror(error.errno or 0)}",
        hint=Hint("choose another port with {}; ports below 1024 require privileges", setting),
    )
