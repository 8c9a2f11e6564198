"""Write reproducible tar archives of images, atomically."""

from __future__ import annotations

import os
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core.errors import DiskError
from opmkit.core.files import check_output, disk_errors
from opmkit.core.scratch import ScratchDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class TarWriter:
    """A writer of tar members, all with the same owner, mode and time, into a seekable file.

    Names are at most 100 bytes long, so that each header is one block and can be rewritten in place.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Write at the current position of the file."""
        self._file = file

    def add(self, name: str, content: bytes) -> None:
        """Write a member."""
        self.stream(name, (content,))

    def stream(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write a member whose size is not known in advance, and return that size in bytes."""
        start = self._file.tell()
        self._file.write(_header(name, 0))
        size = 0
        for chunk in chunks:
            self._file.write(chunk)
            size += len(chunk)
        self._file.write(bytes(-size % tarfile.BLOCKSIZE))
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(_header(name, size))
        self._file.seek(end)
        return size

    def finish(self) -> None:
        """Write the end of the archive."""
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.write(bytes(-self._file.tell() % tarfile.RECORDSIZE))
        self._file.flush()


@contextmanager
def new_archive(path: Path) -> Iterator[TarWriter]:
    """Write an archive, which replaces the file at the path once the block ends without an error.

    Raises:
        DiskError: The file cannot be written, or the path is not that of a regular file.
    """
    with disk_errors(path):
        check_output(path)
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise DiskError(f"{path} is not a file", hint="pass the path of the archive to write")
        path.parent.mkdir(parents=True, exist_ok=True)
        with ScratchDirectory(".opm-archive-", path.parent) as scratch, Path(scratch, path.name).open("wb") as output:
            os.fchmod(output.fileno(), 0o644)
            writer = TarWriter(output)
            yield writer
            writer.finish()
            os.fsync(output.fileno())
            Path(output.name).replace(path)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)  # sizes above 8 GiB still fit into one block
