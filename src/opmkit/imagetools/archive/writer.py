"""Writing tar archives of images: the same members give the same bytes, and a file appears whole or not at all."""

from __future__ import annotations

import os
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RECORD = 20 * tarfile.BLOCKSIZE


class TarWriter:
    """Writes members one after the other into a file that can be positioned; owner, mode and time are always the same.

    Names have at most 100 bytes, so that a header is one block, whatever the size.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Write from where the file is positioned."""
        self._file = file

    def add(self, name: str, content: bytes) -> None:
        """Write a member."""
        self.stream(name, (content,))

    def stream(self, name: str, pieces: Iterable[bytes]) -> int:
        """Write a member whose size is known only in the end, and give that."""
        start = self._file.tell()
        self._file.write(_header(name, 0))
        size = 0
        for piece in pieces:
            self._file.write(piece)
            size += len(piece)
        self._file.write(bytes(-size % tarfile.BLOCKSIZE))
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(_header(name, size))
        self._file.seek(end)
        return size

    def finish(self) -> None:
        """Write the archive's end."""
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.write(bytes(-self._file.tell() % _RECORD))
        self._file.flush()


@contextmanager
def new_archive(path: Path) -> Iterator[TarWriter]:
    """A writer of the archive at the path, which takes the place of what is there when the block ends without error.

    Raises StoreError for what the disk says, and where something else than a file is at the path.
    """
    with disk_errors(path):
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is not a file", hint="name the file that the archive is to be written to")
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
    return info.tobuf(tarfile.GNU_FORMAT)  # sizes above 8 GiB fit into the one block
