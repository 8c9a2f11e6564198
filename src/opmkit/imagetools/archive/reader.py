"""Tar archives of images as hostile files with random access: nothing of them is extracted to be read."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from opmkit.imagetools.errors import InvalidImage, LimitExceeded, NotFound
from opmkit.imagetools.layer.compression import DAMAGED, compression_of, decompressed
from opmkit.imagetools.layer.limits import ON_DISK, Meter
from opmkit.imagetools.layer.paths import HOPS, link_target, normal_path
from opmkit.imagetools.layer.reader import HEADER_BYTES
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

MEMBERS = 1 << 16
"""The most members of an archive: an image has at most some thousand blobs."""
_CHUNK = 1 << 20
_HINT = "the archive is damaged or hostile: make it anew"


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of an archive: where its content begins, and its size, both in bytes."""

    offset: int
    size: int


class TarArchive:
    """The members of an archive, by their paths without './'; links lead to the files they mean.

    ``place`` names the archive in errors. It may be read from several threads; the file is closed with the object.
    """

    def __init__(self, file: BinaryIO, place: str) -> None:
        """Take the file over and read all headers, no content; raises InvalidImage and LimitExceeded."""
        self.place = place
        self._file = file
        weakref.finalize(self, file.close)
        self._members: dict[str, Member] = {}
        self._links: dict[str, str] = {}
        for info in _headers(file, place):
            self._enter(info)

    @classmethod
    def open(cls, path: Path) -> TarArchive:
        """The archive at the path; one that is compressed or a pipe is read from an unnamed temporary file.

        Raises NotFound where there is none, StoreError for what the disk says, and as the constructor does.
        """
        with disk_errors(path):
            try:
                file = path.open("rb")
            except FileNotFoundError as error:
                hint = "name an archive such as 'docker save' and 'podman save' make"
                raise NotFound(f"there is no file {path}", hint=hint) from error
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            if regular and not compression_of(file.peek(4)):
                return cls(file, str(path))
            with file:
                return cls(_spooled(file, str(path)), str(path))

    def __contains__(self, name: str) -> bool:
        """Whether there is a file, or a link, of that path."""
        return name in self._members or name in self._links

    def member(self, name: str) -> Member:
        """The file at the path, links followed within the archive; raises InvalidImage if there is none."""
        path: str | None = normal_path(name)
        for _ in range(HOPS):
            if path is not None and path in self._members:
                return self._members[path]
            if path is None or path not in self._links:
                raise self.invalid(f"there is no member {name[:200]!r} in it")
            path = self._links[path]
        raise self.invalid(f"member {name[:200]!r} is a link that leads round in circles")

    def stream(self, name: str) -> BinaryIO:
        """The content of a file, not verified."""
        return io.BufferedReader(_Content(self, self._file.fileno(), self.member(name)), _CHUNK)

    def read(self, name: str, limit: int) -> bytes:
        """The content of a file in memory; raises LimitExceeded above ``limit`` bytes."""
        member = self.member(name)
        if member.size > limit:
            raise LimitExceeded(f"{self.place}: member {name!r} is longer than the bound of {limit} bytes")
        with self.stream(name) as stream:
            return stream.read()

    def invalid(self, reason: str, hint: str = _HINT) -> InvalidImage:
        """An error that names the archive."""
        return InvalidImage(f"{self.place}: {reason}", hint=hint)

    def _enter(self, info: tarfile.TarInfo) -> None:
        name = normal_path(info.name)
        if name is None:
            raise self.invalid(f"member {info.name[:200]!r} points out of the archive")
        if info.isdir():
            return
        if name in self:
            raise self.invalid(f"member {name[:200]!r} is there twice")
        if info.issparse() or info.size < 0:
            raise self.invalid(f"member {name[:200]!r} is no plain file")
        if info.isreg():
            self._members[name] = Member(info.offset_data, info.size)
        elif info.issym():
            self._links[name] = link_target(name, info.linkname)
        elif info.islnk():
            self._links[name] = link_target("", info.linkname)
        else:
            raise self.invalid(f"member {name[:200]!r} is a device or pipe")


class _Content(io.RawIOBase):
    """A part of a file, read by position, so that several can be read at once."""

    def __init__(self, archive: TarArchive, descriptor: int, member: Member) -> None:
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
            raise self._archive.invalid("it became shorter while it was read")
        self._position += count
        return count


class _Headers:
    """A file as tarfile wants it, which gives no header that is too long, and remembers the last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int) -> bytes:
        if size > HEADER_BYTES:
            raise tarfile.HeaderError(f"a header of {size} bytes")
        self.last = self._file.read(size)
        return self.last

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, position: int) -> int:
        if position < self._file.tell() - 1:
            raise tarfile.HeaderError("a member of negative size")
        return self._file.seek(position)


def _headers(file: BinaryIO, place: str) -> Iterator[tarfile.TarInfo]:
    """Every header of the archive; raises InvalidImage unless it is whole, and LimitExceeded above MEMBERS."""
    headers = _Headers(file)
    try:
        archive = tarfile.TarFile(fileobj=cast("BinaryIO", headers))
        count = 0
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # it remembers them all
            count += 1
            if count > MEMBERS:
                raise LimitExceeded(f"{place}: more members than the bound of {MEMBERS}", hint=_HINT)
            yield info
        if headers.last.strip(b"\0"):
            raise tarfile.HeaderError("a broken header")
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise InvalidImage(f"{place} is no tar archive, or damaged: {reason}", hint=_HINT) from error


def _spooled(file: io.BufferedReader, place: str) -> BinaryIO:
    """What is in a compressed file or a pipe, in an unnamed temporary file; raises LimitExceeded and InvalidImage."""
    meter = Meter(ON_DISK)
    spool = cast("BinaryIO", tempfile.TemporaryFile(prefix="opm-archive-"))  # noqa: SIM115
    try:
        content = decompressed(cast("io.BufferedReader[io.RawIOBase]", file), "")
        with disk_errors(Path(tempfile.gettempdir())):
            while data := content.read(_CHUNK):
                meter.spend("total_bytes", len(data), place)
                spool.write(data)
            spool.seek(0)
    except DAMAGED as error:
        spool.close()
        reason = str(error) or type(error).__name__
        raise InvalidImage(f"{place} is damaged: {reason}", hint=_HINT) from error
    except BaseException:
        spool.close()
        raise
    return spool
