"""Download of a blob that resumes after the connection breaks."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.registry.messages import content_length
from opmkit.imagetools.registry.retry import TransientError
from opmkit.imagetools.registry.transport import MIN_TRANSFER_RATE

if TYPE_CHECKING:
    from opmkit.http.messages import Deadline
    from opmkit.http.sessions import OpenResponse
    from opmkit.imagetools.registry.messages import Request
    from opmkit.imagetools.registry.transport import RegistryTransport

_MAX_READ_SIZE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-")


class BlobStream(io.RawIOBase):
    """The body of the response to ``request``, ``size`` bytes long, from ``offset`` on. It is not verified.

    After a break the rest is requested with a Range header; if the registry ignores it, the known part is skipped. The
    deadline is extended by the bytes read, and excludes the time between reads.
    """

    def __init__(self, transport: RegistryTransport, request: Request, size: int, offset: int = 0) -> None:
        """Send the request; raises NotFound and other ImageToolsErrors."""
        self._transport = transport
        self._request = request
        self._size = size
        self._offset = offset
        self._seconds_left = transport.options.deadline
        self._response: OpenResponse | None = None
        deadline = transport.deadline()
        transport.retry.run(lambda: self._connect(deadline), deadline)

    def readable(self) -> bool:
        """Return True (io.RawIOBase)."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read at most ``size`` bytes, and at most 1 MiB; with -1, all remaining bytes."""
        if size < 0:
            return self.readall()
        deadline = self._transport.retry.deadline(self._seconds_left)
        data = self._transport.retry.run(lambda: self._read(min(size, _MAX_READ_SIZE), deadline), deadline)
        self._seconds_left = deadline.remaining() + len(data) / MIN_TRANSFER_RATE
        return data

    def close(self) -> None:
        """Release the connection."""
        self._disconnect()
        super().close()

    def _read(self, size: int, deadline: Deadline) -> bytes:
        try:
            data = self._transport.read_body(self._request, self._connect(deadline), size, deadline)
            if not data and self._offset < self._size and size:
                raise TransientError(f"{self._request.subject}: the response ended early")
        except TransientError:
            self._disconnect()
            raise
        self._offset += len(data)
        return data

    def _connect(self, deadline: Deadline) -> OpenResponse:
        if self._response is None:
            request = self._request
            if self._offset:
                headers = {**request.headers, "Range": f"bytes={self._offset}-"}
                request = replace(request, headers=headers, ok=(200, 206))
            self._response = self._transport.open(request, deadline)
            self._skip_known(self._response, deadline)
        return self._response

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def _skip_known(self, response: OpenResponse, deadline: Deadline) -> None:
        """Skip to the offset in a response that may begin there or at the start of the blob."""
        start = 0
        if response.status == 206:
            content_range = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
            start = int(content_range[1]) if content_range else -1
        length = content_length(response.headers)
        if start not in (0, self._offset) or (length is not None and start + length != self._size):
            raise DigestMismatch(
                f"{self._request.subject}: size mismatch: the registry does not send the expected {self._size} bytes",
                hint="if the error persists, the blob in the registry is damaged: push the image again",
            )
        left = self._offset - start
        while left:
            data = self._transport.read_body(self._request, response, min(left, _MAX_READ_SIZE), deadline)
            if not data:
                break
            left -= len(data)
