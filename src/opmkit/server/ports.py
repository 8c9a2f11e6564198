"""TCP ports that the processes of a server share."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint, Setting
from opmkit.index.hint_terms import IndexSetting
from opmkit.server.errors import ServerError

if TYPE_CHECKING:
    from types import TracebackType


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
