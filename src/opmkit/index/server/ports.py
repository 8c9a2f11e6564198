"""The port of a server whose processes listen on it together."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.server.errors import ServerError

if TYPE_CHECKING:
    from types import TracebackType


class ReservedPort:
    """A TCP port on all addresses of this machine, held while processes of this user may listen on it.

    The holder does not listen itself. It binds the port alone, which fails where anybody else has it, and only then
    lets others share it: had it been ready to share from the start, two servers would silently take turns.
    """

    def __init__(self, wanted: int) -> None:
        """Take the port ``wanted``, or a free one for 0; raises ServerError."""
        self._socket = _bound(wanted)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.number: int = self._socket.getsockname()[1]

    def __enter__(self) -> ReservedPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()


def listening(port: int) -> socket.socket:
    """A socket of this process on a port that is reserved; raises ServerError."""
    return _bound(port, shared=True)


def _bound(port: int, *, shared: bool = False) -> socket.socket:
    """A socket on the port of all IPv6 and IPv4 addresses, or of the latter alone where there is no IPv6."""
    try:
        return _bound_in(socket.AF_INET6, port, shared=shared)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise _unusable(port, error) from error
    try:
        return _bound_in(socket.AF_INET, port, shared=shared)
    except OSError as error:
        raise _unusable(port, error) from error


def _bound_in(family: socket.AddressFamily, port: int, *, shared: bool) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio asks for the protocol
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # former connections may linger
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections have it, too
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.bind(("", port))
    except OSError:
        opened.close()
        raise
    return opened


def _unusable(port: int, error: OSError) -> ServerError:
    if error.errno == errno.EADDRINUSE:
        return ServerError(
            f"port {port} is taken: another program listens there",
            hint=Hint.any_of(
                "stop that program", Hint("choose another port with {} (0 selects a free one)", Setting.PORT)
            ),
        )
    return ServerError(
        f"port {port} can't be used: {os.strerror(error.errno or 0)}",
        hint=Hint("choose another port with {}; ports below 1024 require privileges", Setting.PORT),
    )
