"""Tar archives of blobs that several threads write at once, and that a later process can continue."""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core import interrupts
from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors, make_output_directory, sync_to_disk
from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.repository import CHUNK_SIZE, verify_stream
from opmkit.imagetools.spec import Descriptor, check_digest, sha256_digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from _typeshed import WriteableBuffer

PARTIAL_SUFFIX = ".partial"
_BLOBS = "blobs"
_INCOMPLETE = "incomplete"
LOCK_TIMEOUT_SECONDS = 10.0
"""Time to wait for another process that writes the archive."""
_POLL_INTERVAL = 0.05


class GrowingArchive:
    """An archive that is written to ``FILE.partial``, and renamed to ``FILE`` when it is complete.

    Each blob has its place in the file before its content is written, so that blobs are written concurrently. Until
    then, its member is called ``incomplete/...``, also if the process is killed. The next process finds the complete
    blobs again, and verifies one before it is used. Thread-safe, except that a blob has one writer at a time.
    """

    def __init__(self, path: Path) -> None:
        """Open ``FILE.partial`` and lock it; create it as a copy of ``FILE`` if that exists.

        Raises:
            DiskError: The file cannot be written, or another process still writes it after LOCK_TIMEOUT_SECONDS.
        """
        self.path = path
        self.partial = path.with_name(f"{path.name}{PARTIAL_SUFFIX}")
        self._blobs: dict[str, tuple[int, int]] = {}
        self._incomplete: dict[str, tuple[int, int]] = {}
        self._verified: set[str] = set()
        self._lock = threading.Lock()
        with disk_errors(self.partial):
            make_output_directory(self.partial.parent)
            self._file, self._descriptor = self._acquire()
            try:
                if not os.fstat(self._descriptor).st_size:
                    self._copy_existing()
                self._end = self._read_members()
                os.ftruncate(self._descriptor, self._end)
            except BaseException:
                self.close()
                raise

    def find(self, descriptor: Descriptor) -> bool:
        """Return whether the archive has a blob, after verifying it if another process has written it."""
        digest = descriptor.digest
        found = self._blobs.get(digest)
        if found is None or found[1] != descriptor.size:
            return False
        if digest not in self._verified:
            try:
                with self.open(descriptor) as stream:
                    while stream.read(CHUNK_SIZE):
                        pass
            except DigestMismatch:
                with self._lock, disk_errors(self.partial):
                    place = self._incomplete[digest] = self._blobs.pop(digest)
                    self._write_header(_incomplete_name(descriptor), *place)
                return False
            self._verified.add(digest)
        return True

    def open(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob of the archive, which is verified when read to its end; raise KeyError if there is none."""
        content = io.BufferedReader(_Content(self._descriptor, *self._blobs[descriptor.digest]), CHUNK_SIZE)
        return verify_stream(content, descriptor, str(self.path))

    def size(self, digest: str) -> int | None:
        """Return the size of a blob in bytes, None if the archive does not have it."""
        found = self._blobs.get(digest)
        return found[1] if found else None

    def add(self, descriptor: Descriptor, stream: BinaryIO) -> None:
        """Write a blob; raise DigestMismatch, or DiskError if the file cannot be written."""
        with disk_errors(self.partial):
            place = self._reserve(descriptor)
            position = place[0]
            with verify_stream(stream, descriptor) as content:
                while data := content.read(CHUNK_SIZE):
                    view = memoryview(data)
                    while view:
                        count = os.pwrite(self._descriptor, view, position)
                        position, view = position + count, view[count:]
            self._write_header(_member_name(descriptor.digest), *place)
        with self._lock:
            self._incomplete.pop(descriptor.digest, None)
            self._blobs[descriptor.digest] = place
            self._verified.add(descriptor.digest)

    def add_bytes(self, content: bytes) -> None:
        """Write a small blob unless the archive has it; any number of threads may write the same one."""
        digest = sha256_digest(content)
        self.find(Descriptor("", digest, len(content)))
        with self._lock, disk_errors(self.partial):
            if digest in self._verified:
                return
            offset = self._append(_member_name(digest), content)
            self._blobs[digest] = (offset, len(content))
            self._verified.add(digest)

    def finish(self, files: Mapping[str, bytes]) -> None:
        """Write the other members, sync the file to disk, and rename it."""
        with self._lock, disk_errors(self.path):
            for name, content in files.items():
                self._append(name, content)
            end = self._end + 2 * tarfile.BLOCKSIZE
            os.ftruncate(self._descriptor, end + -end % tarfile.RECORDSIZE)
            os.fchmod(self._descriptor, 0o644)
            os.fsync(self._descriptor)
            self.partial.replace(self.path)
            sync_to_disk(self.path.parent)
        self.close()

    def close(self) -> None:
        """Close the file and release its lock; the partial file remains."""
        self._file.close()
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = -1

    def _acquire(self) -> tuple[BinaryIO, int]:
        """Open and lock the partial file; return it, and a descriptor to write it."""
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        while True:
            file = self.partial.open("a+b", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                descriptor = os.open(self.partial, os.O_RDWR)
                if os.path.sameopenfile(file.fileno(), descriptor):
                    return file, descriptor
                os.close(descriptor)  # another process has completed the archive since this one opened the file
            except (BlockingIOError, FileNotFoundError):
                if time.monotonic() > deadline:
                    hint = "wait for it, or write another file"
                    raise DiskError(f"{self.partial}: another process is writing this archive", hint=hint) from None
            file.close()
            interrupts.sleep(_POLL_INTERVAL)

    def _copy_existing(self) -> None:
        """Continue a complete archive in a copy, so that it exists until the new one does."""
        try:
            source = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            while os.copy_file_range(source, self._descriptor, 1 << 30):
                pass
        finally:
            os.close(source)

    def _read_members(self) -> int:
        """Record the blobs in the file, and return the position of the first byte after them."""
        position, size = 0, os.fstat(self._descriptor).st_size
        while header := os.pread(self._descriptor, tarfile.BLOCKSIZE, position):
            try:
                info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
            except (tarfile.HeaderError, UnicodeDecodeError):
                break
            if "/" not in info.name:
                break
            offset = position + tarfile.BLOCKSIZE
            *kind, algorithm, encoded = info.name.split("/")
            is_blob = kind == [_BLOBS]
            is_known = (is_blob or kind[:1] == [_INCOMPLETE]) and info.isreg() and info.size >= 0
            if not is_known or (is_blob and offset + info.size > size):
                break
            members = self._blobs if is_blob else self._incomplete
            members[f"{algorithm}:{encoded}"] = (offset, info.size)
            position = offset + info.size + -info.size % tarfile.BLOCKSIZE
        return position

    def _reserve(self, descriptor: Descriptor) -> tuple[int, int]:
        """Return the offset and size of the place for a blob."""
        with self._lock:
            place = self._incomplete.get(descriptor.digest)
            if place is None or place[1] != descriptor.size:
                place = self._end + tarfile.BLOCKSIZE, descriptor.size
                self._write_header(_incomplete_name(descriptor), *place)
                self._end = place[0] + descriptor.size + -descriptor.size % tarfile.BLOCKSIZE
                os.ftruncate(self._descriptor, self._end)
                self._incomplete[descriptor.digest] = place
            return place

    def _append(self, name: str, content: bytes) -> int:
        """Write a member at the end and return its offset."""
        offset = self._end + tarfile.BLOCKSIZE
        padded = _header(name, len(content)) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        position = self._end
        view = memoryview(padded)
        while view:
            count = os.pwrite(self._descriptor, view, position)
            position, view = position + count, view[count:]
        self._end = position
        return offset

    def _write_header(self, name: str, offset: int, size: int) -> None:
        os.pwrite(self._descriptor, _header(name, size), offset - tarfile.BLOCKSIZE)


class _Content(io.RawIOBase):
    """The content of one member, read by offset, so that several members can be read concurrently."""

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        self._descriptor = descriptor
        self._position, self._end = offset, offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")[: self._end - self._position]
        count = os.preadv(self._descriptor, [view], self._position)
        self._position += count
        return count


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def _member_name(digest: str) -> str:
    algorithm, _, encoded = check_digest(digest).partition(":")
    return f"{_BLOBS}/{algorithm}/{encoded}"


def _incomplete_name(descriptor: Descriptor) -> str:
    return _member_name(descriptor.digest).replace(_BLOBS, f"{_INCOMPLETE}/{descriptor.size}", 1)
