"""Streams of blobs that report progress, and that can be stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from opmkit.core.errors import OpmkitError
from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from opmkit.core.progress import Progress
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.spec import Descriptor


class Stopped(ImageToolsError):
    """Another image has failed, so that this one is not copied."""


class SourceFailed(Exception):
    """A failure to read from the source; targets pass it on, while they may handle their own errors.

    Attributes:
        error: The failure.
    """

    def __init__(self, error: OpmkitError) -> None:
        """Wrap a failure."""
        super().__init__(error)
        self.error = error


class TransferMeter:
    """The progress of all transfers, and the switch that stops them. Thread-safe."""

    def __init__(self, progress: Progress) -> None:
        """Report to ``progress``."""
        self._progress = progress
        self._lock = threading.Lock()
        self.is_stopped = False
        self.transferred = 0
        """Bytes read from the sources."""

    def stop(self) -> None:
        """Let all transfers fail."""
        self.is_stopped = True

    def count(self, size: int) -> None:
        """Count bytes that were read; raise Stopped."""
        if self.is_stopped:
            raise Stopped("stopped after another image failed")
        with self._lock:
            self.transferred += size

    def advance(self, size: int) -> None:
        """Report that ``size`` more bytes are done."""
        self._progress.advance(size)


class BlobTransfer:
    """The transfer of one blob; a retry opens it again. Its streams raise SourceFailed."""

    def __init__(self, descriptor: Descriptor, source: ImageSource, meter: TransferMeter, *, is_reported: bool) -> None:
        """Prepare to read a blob; ``is_reported`` is false if its bytes have been reported before."""
        self._descriptor = descriptor
        self._source = source
        self._meter = meter
        self._is_reported = is_reported
        self._sent = 0

    def open(self) -> BinaryIO:
        """Open the blob, which is verified when read to its end."""
        self._advance(-self._sent)
        self._sent = 0
        self._meter.count(0)
        try:
            stream = self._source.open_blob(self._descriptor)
        except OpmkitError as error:
            raise SourceFailed(error) from error
        return cast("BinaryIO", _Stream(stream, self))

    def finish(self) -> None:
        """Report the bytes that did not have to be read."""
        self._advance(self._descriptor.size - self._sent)

    def read(self, stream: BinaryIO, size: int) -> bytes:
        """Read from the opened blob."""
        try:
            data = stream.read(size)
        except OpmkitError as error:
            raise SourceFailed(error) from error
        self._meter.count(len(data))
        self._sent += len(data)
        self._advance(len(data))
        return data

    def _advance(self, size: int) -> None:
        if self._is_reported and size:
            self._meter.advance(size)


class _Stream:
    """The part of BinaryIO that repositories use to store blobs."""

    def __init__(self, stream: BinaryIO, transfer: BlobTransfer) -> None:
        self._stream = stream
        self._transfer = transfer

    def read(self, size: int = -1, /) -> bytes:
        return self._transfer.read(self._stream, size)

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
