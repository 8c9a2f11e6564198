"""Write reproducible layers: the same files give the same bytes on every machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from opmkit.core.files import disk_errors, open_regular
from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.layer.compression import Compression, layer_media_type
from opmkit.imagetools.layer.compressor import GzipCompressor, NoCompressor
from opmkit.imagetools.layer.reader import OPAQUE_WHITEOUT, WHITEOUT_PREFIX
from opmkit.imagetools.spec import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CHUNK = 1 << 20
_WORLD_WRITABLE = ("tmp",)


class LayerFile(Struct, frozen=True):
    """A regular file to add to a layer: its path relative to the root, and its content or a file that contains it."""

    path: str
    source: bytes | Path
    mode: int = 0o644


class Layer(Struct, frozen=True):
    """A layer on disk: its descriptor (OCI media type), the digest of its uncompressed tar, and its file."""

    descriptor: Descriptor
    diff_id: str
    path: Path


def write_layer(
    files: Iterable[LayerFile],
    directory: Path,
    *,
    opaque_directories: Iterable[str] = (),
    mtime: int = 0,
    compressed: bool = True,
) -> Layer:
    """Write a layer into ``directory``, in a single pass and constant memory; the caller owns the file.

    Order, owners (0:0), parent directories (0755, ``tmp`` 01777) and times (``mtime``, in Unix seconds) do not depend
    on the machine. ``opaque_directories`` hide what lower layers contain in these directories. The layer is
    compressed with gzip unless ``compressed`` is false.

    Raises:
        InvalidImage: A path is invalid in a layer.
        DiskError: A file cannot be read or written.
    """
    return write_tar(_tar(files, mtime, opaque_directories), directory, compressed=compressed)


def write_tar(blocks: Iterable[bytes], directory: Path, *, compressed: bool = True) -> Layer:
    """Write a layer with the tar archive ``blocks`` into ``directory``; the caller owns the file.

    It is compressed with gzip unless ``compressed`` is false. Equal archives give equal layers. Errors that
    ``blocks`` raises are passed on.

    Raises:
        DiskError: The file cannot be written.
    """
    with disk_errors(directory):
        output = tempfile.NamedTemporaryFile(dir=directory, prefix=".layer-", delete=False)  # noqa: SIM115
        try:
            with output:
                writer = _BlobWriter(output, GzipCompressor() if compressed else NoCompressor())
                for block in blocks:
                    writer.write(block)
                descriptor = writer.finish(layer_media_type(Compression.GZIP if compressed else Compression.NONE))
            path = Path(output.name).rename(directory / f"{descriptor.digest.partition(':')[2]}.layer")
        except BaseException:
            Path(output.name).unlink(missing_ok=True)
            raise
    return Layer(descriptor, writer.diff_id, path)


class _BlobWriter:
    """Compresses a tar archive into a file, and hashes both."""

    def __init__(self, output: IO[bytes], compressor: GzipCompressor | NoCompressor) -> None:
        self._output = output
        self._compressor = compressor
        self._tar_hash = hashlib.sha256()
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        self._tar_hash.update(data)
        self._write_compressed(self._compressor.compress(data))

    def finish(self, media_type: str) -> Descriptor:
        self._write_compressed(self._compressor.flush())
        return Descriptor(media_type, f"sha256:{self._hash.hexdigest()}", self._size)

    @property
    def diff_id(self) -> str:
        return f"sha256:{self._tar_hash.hexdigest()}"

    def _write_compressed(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        self._output.write(data)


def _tar(files: Iterable[LayerFile], mtime: int, opaque_directories: Iterable[str]) -> Iterator[bytes]:
    """Yield the blocks of a tar archive in POSIX ustar format, with pax headers only for what ustar cannot store."""
    directories: set[tuple[str, ...]] = set()
    written: set[tuple[str, ...]] = set()
    members = [(parts, parts, file) for file in files for parts in (_path_parts(file.path),)]
    for path in opaque_directories:
        parts = _path_parts(path)
        sorts_first = (*parts, "")  # readers must see the whiteout before the files of the directory
        members.append((sorts_first, (*parts, OPAQUE_WHITEOUT), LayerFile(path, b"")))
    for _, parts, file in sorted(members, key=lambda member: member[0]):
        for depth in range(1, len(parts)):
            if parts[:depth] not in directories:
                directories.add(parts[:depth])
                mode = 0o1777 if parts[:depth] == _WORLD_WRITABLE else 0o755
                yield _header("/".join(parts[:depth]) + "/", tarfile.DIRTYPE, mode, 0, mtime)
        if parts in written or any(parts[:depth] in written for depth in range(1, len(parts))):
            raise InvalidImage(f"{file.path!r}: duplicate path, or both a file and a directory")
        written.add(parts)
        yield from _file(file, "/".join(parts), mtime)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(file: LayerFile, name: str, mtime: int) -> Iterator[bytes]:
    with io.BytesIO(file.source) if isinstance(file.source, bytes) else open_regular(file.source) as source:
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
        yield _header(name, tarfile.REGTYPE, file.mode & 0o7777, size, mtime)
        left = size
        while left and (data := source.read(min(_CHUNK, left))):
            left -= len(data)
            yield data
        if left or source.read(1):
            raise ImageToolsError(f"{file.source!s:.200}: file changed while it was read", hint="try again")
    yield bytes(-size % tarfile.BLOCKSIZE)


def _header(name: str, kind: bytes, mode: int, size: int, mtime: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, mtime
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _path_parts(path: str) -> tuple[str, ...]:
    parts = tuple(path.split("/"))
    if any(part in {"", ".", ".."} or part.startswith(WHITEOUT_PREFIX) or "\0" in part for part in parts):
        raise InvalidImage(
            f"{path!r}: invalid path for a layer",
            hint="use a relative path without '.', '..', empty parts and names that start with '.wh.'",
        )
    return parts
