"""Close connections so that clients receive everything, and detect connections without progress."""

from __future__ import annotations

import fcntl
import termios
import time
from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_LINGER = 1.0
"""Seconds without data from the client after which a connection with nothing left to deliver is closed."""
_MAX_DISCARDED = 1_048_576
"""Bytes that are discarded before a connection is aborted."""


@dataclass(slots=True)
class Activity:
    """The time since which a connection makes no progress, as far as observed."""

    since: float
    _progress: tuple[int, ...] = ()

    def update(self, now: float, progress: tuple[int, ...]) -> bool:
        """Return whether ``progress`` has changed since the last call."""
        changed = progress != self._progress
        if changed:
            self.since, self._progress = now, progress
        return changed


class LingeringClose:
    """A connection that sends nothing more, and discards what it receives until the client has received everything.

    If the socket were closed at once, data from the client would cause a reset, and the rest would be lost.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        """Close the sending side."""
        self._transport = transport
        self._discarded = 0
        self._last_received = time.monotonic()
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
            transport.resume_reading()
        except OSError:  # the client has reset the connection, which the event loop has not noticed yet
            transport.abort()

    def discard(self, size: int) -> None:
        """Count bytes from the client, and abort the connection if there are too many."""
        self._last_received = time.monotonic()
        self._discarded += size
        if self._discarded > _MAX_DISCARDED:
            self._transport.abort()

    def is_complete(self) -> bool:
        """Return whether the client has received everything, and had time to close the connection."""
        return not self._undelivered() and time.monotonic() - self._last_received > _LINGER

    def progress(self) -> tuple[int, ...]:
        """Return numbers that change while the client sends or receives."""
        return self._discarded, self._undelivered()

    def _undelivered(self) -> int:
        """Return the number of bytes that the client's system has not acknowledged.

        The kernel discards them when the client sends anything to a connection that the server has closed.
        """
        waiting = self._transport.get_write_buffer_size()
        queued = array("i", [0])
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):  # systems other than Linux support this request for terminals only
                fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, queued)
        return waiting + queued[0]
