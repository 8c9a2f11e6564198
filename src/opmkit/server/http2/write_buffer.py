"""Buffer for frames that are written to the socket together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

WRITE_BUFFER_SIZE = 65_536
"""Bytes that are collected before a write, and that may wait in the transport before sending pauses."""


class WriteBuffer:
    """Frames of a connection that are not written yet."""

    def __init__(self) -> None:
        """Create an empty buffer; it needs a transport before it is flushed."""
        self.transport: asyncio.Transport | None = None
        self.closed = False
        """Whether nothing is written any more."""
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add bytes, and flush the buffer if it is full."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= WRITE_BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the transport."""
        if self._pieces:
            data, self._pieces, self._size = b"".join(self._pieces), [], 0
            if self.transport is not None and not self.closed:
                self.transport.write(data)
