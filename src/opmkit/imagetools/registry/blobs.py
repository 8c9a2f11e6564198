"""Reading a blob from a registry, with resumption where the connection broke."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.registry.messages import content_length
from opmkit.imagetools.registry.retry import TransientError
from opmkit.imagetools.registry.transport import SLOWEST

if TYPE_CHECKING:
    import requests

    from opmkit.imagetools.registry.messages import Request
    from opmkit.imagetools.registry.retry import Deadline
    from opmkit.imagetools.registry.transport import Transport

_PIECE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-")


class BlobStream(io.RawIOBase):
    """The answer to ``request``, ``size`` bytes long, read from the network as it is read, from ``offset`` on.

    After a break the rest is asked for with a Range header, or skipped to where ranges are not supported. What arrives
    isn't checked here. Each piece earns the time for a next one; the time between two reads doesn't count.
    """

    def __init__(self, transport: Transport, request: Request, size: int, offset: int = 0) -> None:
        """Open the connection; raises NotFound and other ImageToolsErrors."""
        self._transport = transport
        self._request = request
        self._size = size
        self._offset = offset
        self._seconds = transport.options.deadline
        self._response: requests.Response | None = None
        deadline = transport.deadline()
        transport.retry.run(lambda: self._connect(deadline), deadline)

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most ``size`` and at most 1 MiB; all that are left with -1."""
        if size < 0:
            return self.readall()
        deadline = self._transport.retry.deadline(self._seconds)
        piece = self._transport.retry.run(lambda: self._read(min(size, _PIECE), deadline), deadline)
        self._seconds = deadline.left() + len(piece) / SLOWEST
        return piece

    def close(self) -> None:
        """Let go of the connection."""
        self._disconnect()
        super().close()

    def _read(self, size: int, deadline: Deadline) -> bytes:
        try:
            piece = self._transport.read(self._request, self._connect(deadline), size, deadline)
            if not piece and self._offset < self._size and size:
                raise TransientError(f"{self._request.subject}: the connection ended early")
        except TransientError:
            self._disconnect()
            raise
        self._offset += len(piece)
        return piece

    def _connect(self, deadline: Deadline) -> requests.Response:
        if self._response is None:
            request = self._request
            if self._offset:
                ranged = {**request.headers, "Range": f"bytes={self._offset}-"}
                request = replace(request, headers=ranged, ok=(200, 206))
            self._response = self._transport.open(request, deadline)
            self._skip(self._response, deadline)
        return self._response

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def _skip(self, response: requests.Response, deadline: Deadline) -> None:
        """Come to where the reading stopped, in an answer that may begin there or at the blob's start."""
        begin = 0
        if response.status_code == 206:
            content_range = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
            begin = int(content_range[1]) if content_range else -1
        length = content_length(response.headers)
        if begin not in (0, self._offset) or (length is not None and begin + length != self._size):
            raise DigestMismatch(
                f"{self._request.subject}: the registry sends other than the {self._size} bytes that were promised",
                hint="if it stays so, the copy in the registry is damaged: push it anew",
            )
        left = self._offset - begin
        while left and (piece := self._transport.read(self._request, response, min(left, _PIECE), deadline)):
            left -= len(piece)
