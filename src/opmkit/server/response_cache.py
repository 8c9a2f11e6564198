"""Cache of large responses in a temporary file of length-prefixed messages, shared by the processes of a server."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import tempfile
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType


_SLOT = struct.Struct("<QQ")
_CHUNK_SIZE = 1 << 20

BUNDLE_LIST = 0
"""The number of the record with the list of all bundles. Each bundle, numbered from 1, has two more records."""


def content_record(bundle: int) -> int:
    """Return the number of the record with the fields of a bundle."""
    return 2 * bundle - 1


def csv_record(bundle: int) -> int:
    """Return the number of the record with the ClusterServiceVersion of a bundle."""
    return 2 * bundle


class ResponseCache:
    """Numbered records in an unnamed file, each written by the process that needs it first.

    The file starts with a slot for the position of each record. Records are appended, and slots written, under a lock.
    Since a record never changes, reading requires none.
    """

    def __init__(self, bundles: int) -> None:
        """Create the file for an index with this number of bundles.

        It is in the temporary directory, or in memory if that is not writable, such as in a container with a read-only
        file system.

        Raises:
            ServerError: The file cannot be created.
        """
        try:
            self._file = unnamed_file()
            os.truncate(self._file.fileno(), (1 + csv_record(bundles)) * _SLOT.size)
        except OSError as error:
            raise ServerError(
                f"{tempfile.gettempdir()}: creating the response cache failed: {error.strerror}",
                hint="set TMPDIR to a writable directory",
            ) from error
        self._descriptor = self._file.fileno()
        self._lock = threading.Lock()
        self._spans: dict[int, Span] = {}

    def __enter__(self) -> ResponseCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def find(self, number: int) -> Span | None:
        """Return the position of a record if this process knows it."""
        return self._spans.get(number)

    def get_or_write(self, number: int, produce: Callable[[], Iterable[bytes]]) -> Span:
        """Return the position of a record; if no process has written it, write the pieces that ``produce`` returns.

        A process writes one record at a time.
        """
        with self._locked():
            span = Span._make(_SLOT.unpack(os.pread(self._descriptor, _SLOT.size, number * _SLOT.size)))
            if not span.offset:
                span = self._append(produce())
                os.pwrite(self._descriptor, _SLOT.pack(*span), number * _SLOT.size)
        self._spans[number] = span
        return span

    def read(self, span: Span) -> bytes:
        """Return a complete record."""
        return read_record(self._descriptor, span)

    def read_messages(self, span: Span) -> Iterator[bytes]:
        """Yield the messages of a record written from `prefix_messages`, with bounded memory."""
        return read_messages(self._descriptor, span)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:  # threads of a process share the lock of the file
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _append(self, pieces: Iterable[bytes]) -> Span:
        start = end = os.fstat(self._descriptor).st_size
        try:
            for chunk in _chunks(pieces):
                rest = memoryview(chunk)
                while rest:  # if the disk is nearly full, a part is written
                    written = os.pwrite(self._descriptor, rest, end)
                    rest, end = rest[written:], end + written
        except BaseException:
            os.truncate(self._descriptor, start)
            raise
        return Span(start, end - start)


def unnamed_file() -> IO[bytes]:
    """Return a new file in the temporary directory, or in memory if that is not writable; raises OSError."""
    try:
        return tempfile.TemporaryFile(prefix="opm-serve-")
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EROFS):
            raise
        return os.fdopen(os.memfd_create("opm-serve"), "w+b")


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in larger chunks."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if len(buffer) >= _CHUNK_SIZE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


_LENGTH = struct.Struct("<I")
_READ_SIZE = 1 << 15


class Span(NamedTuple):
    """The position and size of a record in a file, in bytes."""

    offset: int
    length: int


def read_record(descriptor: int, span: Span) -> bytes:
    """Return a complete record."""
    return os.pread(descriptor, span.length, span.offset)


def read_messages(descriptor: int, span: Span) -> Iterator[bytes]:
    """Yield the messages of a record that consists of the pieces of `prefix_messages`, with bounded memory."""
    offset, end = span.offset, span.offset + span.length
    while offset < end:
        data = os.pread(descriptor, min(_READ_SIZE, end - offset), offset)
        position = 0
        while position + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            start = position + _LENGTH.size
            if start + length > len(data):
                break
            yield data[start : start + length]
            position = start + length
        if not position:  # the message is larger than the buffer
            (length,) = _LENGTH.unpack_from(data)
            yield os.pread(descriptor, length, offset + _LENGTH.size)
            position = _LENGTH.size + length
        offset += position


def prefix_messages(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each message with its length before it."""
    for message in messages:
        yield _LENGTH.pack(len(message)) + message
