"""Random access to the members of untrusted tar archives, without extracting them."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct

from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import InvalidImage, NotFound
from opmkit.imagetools.layer.compression import (
    DECODE_ERRORS,
    MAGIC_SIZE,
    Compression,
    decompress,
    detect_compression,
)
from opmkit.imagetools.layer.headers import HeaderCheck, check_end
from opmkit.imagetools.layer.limits import DISK_LIMITS, LimitTracker
from opmkit.imagetools.layer.reader import MAX_HEADER_SIZE, MAX_LINKS, normalize_path, resolve_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

MAX_MEMBERS = 1 << 18
"""Members of an archive; a mirror of 20,000 images has three for each."""
_CHUNK = 1 << 20
_MAX_NAME_SHOWN = 200
_HINT = "create the archive again"


class ArchiveMember(Struct, frozen=True):
    """A regular file in an archive: the offset of its content and its size, in bytes."""

    offset: int
    size: int


class TarArchive:
    """The members of an archive by path, without './'; links resolve to files of the archive.

    ``location`` names the archive in errors. Threads may read from it concurrently.
    """

    def __init__(self, file: BinaryIO, location: str) -> None:
        """Read all headers, but no content, and close ``file`` once the archive is garbage-collected.

        Raises:
            InvalidImage: The archive is damaged or unsafe.
            LimitExceeded: The archive has too many members or too much content.
        """
        self.location = location
        self._file = file
        weakref.finalize(self, file.close)
        self._members: dict[str, ArchiveMember] = {}
        self._links: dict[str, str] = {}
        for info in _read_headers(file, location):
            self._add(info)

    @classmethod
    def open(cls, path: Path) -> TarArchive:
        """Open an archive; a compressed one or a pipe is copied to an unnamed temporary file first.

        Raises:
            NotFound: The file does not exist.
            DiskError: The file cannot be read.
            InvalidImage: The archive is damaged or unsafe.
            LimitExceeded: The archive has too many members or too much content.
        """
        with disk_errors(path):
            try:
                file = path.open("rb")
            except FileNotFoundError as error:
                hint = "pass an archive such as 'docker save' and 'podman save' create"
                raise NotFound(f"{path}: file does not exist", hint=hint) from error
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if is_regular and detect_compression(file.peek(MAGIC_SIZE)) is Compression.NONE:
                return cls(file, str(path))
            with file:
                return cls(_spool(file, str(path)), str(path))

    def __contains__(self, name: str) -> bool:
        """Return whether there is a file or link with this path."""
        return name in self._members or name in self._links

    def member(self, name: str) -> ArchiveMember:
        """Return the file at a path, following links within the archive; raise InvalidImage if it does not exist."""
        path: str | None = normalize_path(name)
        for _ in range(MAX_LINKS):
            if path is not None and path in self._members:
                return self._members[path]
            if path is None or path not in self._links:
                raise self.invalid(f"member {name[:_MAX_NAME_SHOWN]!r} not found")
            path = self._links[path]
        raise self.invalid(f"member {name[:_MAX_NAME_SHOWN]!r}: too many levels of links")

    def stream(self, name: str) -> BinaryIO:
        """Open the content of a file, which is not verified."""
        return io.BufferedReader(_MemberContent(self, self._file.fileno(), self.member(name)), _CHUNK)

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a file; raise LimitExceeded above ``limit`` bytes."""
        member = self.member(name)
        if member.size > limit:
            raise LimitExceeded(f"{self.location}: member {name!r} exceeds the limit of {limit} bytes")
        with self.stream(name) as stream:
            return stream.read()

    def invalid(self, reason: str, hint: str = _HINT) -> InvalidImage:
        """Return an error that names the archive."""
        return InvalidImage(f"{self.location}: {reason}", hint=hint)

    def _add(self, info: tarfile.TarInfo) -> None:
        name = normalize_path(info.name)
        shown = info.name[:_MAX_NAME_SHOWN]
        if name is None:
            raise self.invalid(f"member {shown!r} points outside the archive")
        if info.isdir():
            return
        if name in self:
            raise self.invalid(f"duplicate member {name[:_MAX_NAME_SHOWN]!r}")
        if info.issparse() or info.size < 0:
            raise self.invalid(f"member {shown!r} is not a plain file")
        if info.isreg():
            self._members[name] = ArchiveMember(info.offset_data, info.size)
        elif info.issym():
            self._links[name] = resolve_link(name, info.linkname)
        elif info.islnk():
            self._links[name] = resolve_link("", info.linkname)
        else:
            raise self.invalid(f"member {shown!r} is a device or a named pipe")


class _MemberContent(io.RawIOBase):
    """The content of one member, read by offset, so that several members can be read concurrently."""

    def __init__(self, archive: TarArchive, descriptor: int, member: ArchiveMember) -> None:
        self._archive = archive  # keeps the file open
        self._descriptor = descriptor
        self._position = member.offset
        self._end = member.offset + member.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")[: self._end - self._position]
        count = os.preadv(self._descriptor, [view], self._position)
        if view and not count:
            raise self._archive.invalid("file was truncated while it was read")
        self._position += count
        return count


class _HeaderFile:
    """A file for tarfile that checks headers and stores the last one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._headers = HeaderCheck()
        self.last = b""

    def read(self, size: int) -> bytes:
        if size > MAX_HEADER_SIZE:
            raise tarfile.HeaderError(f"header of {size} bytes")
        self.last = self._file.read(size)
        self._headers.check(self.last)
        return self.last

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, position: int) -> int:
        if position < self._file.tell() - 1:
            raise tarfile.HeaderError("member of negative size")
        return self._file.seek(position)


def _read_headers(file: BinaryIO, location: str) -> Iterator[tarfile.TarInfo]:
    """Yield every header; raise InvalidImage for an incomplete archive, LimitExceeded above MAX_MEMBERS."""
    headers = _HeaderFile(file)
    with _decode_errors(location):
        archive = tarfile.TarFile(fileobj=cast("BinaryIO", headers))
        count = 0
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # tarfile keeps all of them in memory
            count += 1
            if count > MAX_MEMBERS:
                raise LimitExceeded(f"{location}: exceeds the limit of {MAX_MEMBERS} members", hint=_HINT)
            yield info
        check_end(headers.last, file.read(tarfile.BLOCKSIZE))


def _spool(file: io.BufferedReader, location: str) -> BinaryIO:
    """Copy the decompressed content of a file or pipe to an unnamed temporary file, and return that at its start."""
    tracker = LimitTracker(DISK_LIMITS)
    spool = cast("BinaryIO", tempfile.TemporaryFile(prefix="opm-archive-"))  # noqa: SIM115
    try:
        with _decode_errors(location), disk_errors(Path(tempfile.gettempdir())):
            content = decompress(cast("io.BufferedReader[io.RawIOBase]", file))
            while data := content.read(_CHUNK):
                tracker.add("total_bytes", len(data), location)
                spool.write(data)
            spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


@contextmanager
def _decode_errors(location: str) -> Iterator[None]:
    try:
        yield
    except DECODE_ERRORS as error:
        reason = str(error) or type(error).__name__
        raise InvalidImage(f"{location}: invalid tar archive: {reason}", hint=_HINT) from error
