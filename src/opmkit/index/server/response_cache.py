"""Answers that are made once and kept on disk."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import tempfile
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from opmkit.index.server.errors import ServerError
from opmkit.index.server.length_prefixed import Place, read_messages, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

_SLOT = struct.Struct("<QQ")
_PIECE = 1 << 20


LIST = 0
"""The number of the record with the list of all bundles. Behind it each bundle, numbered from 1, has two."""


def content_record(bundle: int) -> int:
    """The number of the record with the content of a bundle."""
    return 2 * bundle - 1


def csv_record(bundle: int) -> int:
    """The number of the record with the ClusterServiceVersion of a bundle."""
    return 2 * bundle


class ResponseCache:
    """Numbered records in a file without a name, which the processes of a server share.

    Each record is made by whoever needs it first. The file begins with a slot for each that says where it is, and
    grows at its end, both under a lock; what is written once never changes, so that reading needs none.
    """

    def __init__(self, bundles: int) -> None:
        """Make the file for an index of that many bundles; raises ServerError.

        It is in the temporary directory, or in memory where nothing can be written there, such as in a container with a
        read-only file system.
        """
        try:
            self._file = _unnamed_file()
            os.truncate(self._file.fileno(), (1 + csv_record(bundles)) * _SLOT.size)
        except OSError as error:
            raise ServerError(
                f"no file for prepared answers in {tempfile.gettempdir()}: {error.strerror}",
                hint="Point TMPDIR to a directory that can be written to.",
            ) from error
        self._descriptor = self._file.fileno()
        self._lock = threading.Lock()
        self._known: dict[int, Place] = {}

    def __enter__(self) -> ResponseCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def find(self, number: int) -> Place | None:
        """Where a record is, if this process knows of it."""
        return self._known.get(number)

    def prepare(self, number: int, make: Callable[[], Iterable[bytes]]) -> Place:
        """Where a record is, which ``make`` gives in pieces if no process has made it; what it raises is passed on.

        A process makes one at a time.
        """
        with self._locked():
            place = Place._make(_SLOT.unpack(os.pread(self._descriptor, _SLOT.size, number * _SLOT.size)))
            if not place.offset:
                place = self._append(make())
                os.pwrite(self._descriptor, _SLOT.pack(*place), number * _SLOT.size)
        self._known[number] = place
        return place

    def read(self, place: Place) -> bytes:
        """The whole record."""
        return read_record(self._descriptor, place)

    def messages(self, place: Place) -> Iterator[bytes]:
        """The messages of a record that `framed` has made; little of it is in memory at a time."""
        return read_messages(self._descriptor, place)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:  # that of the file is for the other processes: threads share it
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _append(self, pieces: Iterable[bytes]) -> Place:
        start = end = os.fstat(self._descriptor).st_size
        try:
            for piece in _gathered(pieces):
                rest = memoryview(piece)
                while rest:  # a disk that is nearly full takes a part
                    written = os.pwrite(self._descriptor, rest, end)
                    rest, end = rest[written:], end + written
        except BaseException:
            os.truncate(self._descriptor, start)
            raise
        return Place(start, end - start)


def _unnamed_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="opm-serve-")
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EROFS):
            raise
        return os.fdopen(os.memfd_create("opm-serve"), "w+b")


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if len(buffer) >= _PIECE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)
