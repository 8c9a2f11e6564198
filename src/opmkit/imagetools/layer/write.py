"""Writing a layer: the same files give the same bytes, on every machine and at any time."""

from __future__ import annotations

import hashlib
import io
import struct
import tarfile
import tempfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

import zstandard
from zlib_ng import zlib_ng

from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.spec import Descriptor, media_types
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Compression = Literal["gzip", "zstd", "none"]

_CHUNK = 1 << 20
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# ISA-L is faster, but its bytes depend on the CPU; zlib-ng's were the same on 14 x86-64 CPU models and on aarch64.
# Its level 2 is 2.5 times as fast as zlib's level 6 for 4 to 25 % more bytes; s390x does level 1 in hardware.
_GZIP_LEVEL = 2
_GZIP_WINDOW = 1 << 15
_GZIP_THREADS = 4
_GZIP_END = zlib_ng.compress(b"", wbits=-zlib_ng.MAX_WBITS)
_ZSTD_LEVEL = 3
_OPAQUE = ".wh..wh..opq"  # OCI image-spec, layer: what lower layers have in the directory of this name is not there
_EVERYBODYS = ("tmp",)
_MEDIA_TYPES: dict[Compression, str] = {
    "gzip": media_types.OCI_LAYER_GZIP,
    "zstd": media_types.OCI_LAYER_ZSTD,
    "none": media_types.OCI_LAYER,
}


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A regular file to put in a layer: its path there, relative to the root, and its bytes or where they are."""

    path: str
    source: bytes | Path
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer on disk: its descriptor (OCI media type), the digest of its tar, and its file."""

    descriptor: Descriptor
    diff_id: str
    path: Path


def write_layer(
    files: Iterable[LayerFile],
    directory: Path,
    *,
    hidden: Iterable[str] = (),
    mtime: int = 0,
    compression: Compression = "gzip",
) -> Layer:
    """Write a layer into ``directory``, in one pass and constant memory; the caller owns the file.

    What layers under it have in the directories ``hidden`` doesn't count any more. Order, owners (0:0), directories
    (made as needed, 0755, but ``tmp`` as everybody's) and times (``mtime``, Unix seconds) don't depend on the machine.
    Raises InvalidImage for a path that a layer can't have, StoreError for what the disk says.
    """
    return write_tar(_tar(files, mtime, hidden), directory, compression=compression)


def write_tar(blocks: Iterable[bytes], directory: Path, *, compression: Compression = "gzip") -> Layer:
    """Write the layer whose tar archive ``blocks`` are into ``directory``; the caller owns the file.

    Equal archives give equal layers. Raises StoreError for what the disk says, and what the blocks raise.
    """
    with disk_errors(directory):
        output = tempfile.NamedTemporaryFile(dir=directory, prefix=".layer-", delete=False)  # noqa: SIM115
        try:
            with output:
                layer = _Pipeline(output, compression)
                for block in blocks:
                    layer.write(block)
                descriptor = layer.finish(_MEDIA_TYPES[compression])
            path = Path(output.name).rename(directory / f"{descriptor.digest.partition(':')[2]}.layer")
        except BaseException:
            Path(output.name).unlink(missing_ok=True)
            raise
    return Layer(descriptor, layer.diff_id, path)


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Pipeline:
    """Takes a tar's bytes; hashes, compresses, hashes again and writes them."""

    def __init__(self, output: BinaryIO | tempfile._TemporaryFileWrapper[bytes], compression: Compression) -> None:
        self._output = output
        self._compressor: _Compressor = _COMPRESSORS[compression]()
        self._tar_hash = hashlib.sha256()
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        self._tar_hash.update(data)
        self._emit(self._compressor.compress(data))

    def finish(self, media_type: str) -> Descriptor:
        self._emit(self._compressor.flush())
        return Descriptor(media_type, f"sha256:{self._hash.hexdigest()}", self._size)

    @property
    def diff_id(self) -> str:
        return f"sha256:{self._tar_hash.hexdigest()}"

    def _emit(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        self._output.write(data)


class _Gzip:
    """gzip (RFC 1952) with a header that names neither time, file nor operating system.

    Blocks are compressed side by side, as pigz does: each knows the end of the one before, so that next to nothing is
    lost, and the bytes depend on neither the number of threads nor their pace.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_GZIP_THREADS, thread_name_prefix="gzip")
        self._blocks: deque[Future[bytes]] = deque()
        self._pending = bytearray()
        self._window = b""
        self._head = _GZIP_HEADER
        self._crc = 0
        self._size = 0

    def compress(self, data: bytes, /) -> bytes:
        self._crc = zlib_ng.crc32(data, self._crc)
        self._size += len(data)
        self._pending += data
        while len(self._pending) >= _CHUNK:
            self._submit(bytes(self._pending[:_CHUNK]))
            del self._pending[:_CHUNK]
        return self._take(2 * _GZIP_THREADS)

    def flush(self) -> bytes:
        self._submit(bytes(self._pending))
        body = self._take(0)
        self._pool.shutdown()
        return body + _GZIP_END + struct.pack("<LL", self._crc, self._size & 0xFFFFFFFF)

    def _submit(self, block: bytes) -> None:
        self._blocks.append(self._pool.submit(_deflate, block, self._window))
        self._window = block[-_GZIP_WINDOW:]

    def _take(self, leave: int) -> bytes:
        """The blocks that are done, in their order, until no more than ``leave`` are under way."""
        taken, self._head = bytearray(self._head), b""
        while len(self._blocks) > leave:
            taken += self._blocks.popleft().result()
        return bytes(taken)


def _deflate(block: bytes, window: bytes) -> bytes:
    """A block as raw deflate data that ends on a byte; ``window`` is what came before it."""
    start = partial(zlib_ng.compressobj, _GZIP_LEVEL, zlib_ng.DEFLATED, -zlib_ng.MAX_WBITS)
    deflate = start(zdict=window) if window else start()
    return deflate.compress(block) + deflate.flush(zlib_ng.Z_SYNC_FLUSH)


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _zstd() -> _Compressor:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()


_COMPRESSORS = {"gzip": _Gzip, "zstd": _zstd, "none": _Plain}


def _tar(files: Iterable[LayerFile], mtime: int, hidden: Iterable[str] = ()) -> Iterator[bytes]:
    """The blocks of a tar archive: POSIX ustar, with pax headers only for what ustar can't say."""
    directories: set[tuple[str, ...]] = set()
    written: set[tuple[str, ...]] = set()
    members = [(parts, parts, file) for file in files for parts in (_parts(file.path),)]
    for path in hidden:
        parts = _parts(path)
        members.append(((*parts, ""), (*parts, _OPAQUE), LayerFile(path, b"")))  # before all else in the directory
    for _, parts, file in sorted(members, key=lambda member: member[0]):
        for depth in range(1, len(parts)):
            if parts[:depth] not in directories:
                directories.add(parts[:depth])
                mode = 0o1777 if parts[:depth] == _EVERYBODYS else 0o755
                yield _header("/".join(parts[:depth]) + "/", tarfile.DIRTYPE, mode, 0, mtime)
        if parts in written or any(parts[:depth] in written for depth in range(1, len(parts))):
            raise InvalidImage(f"{file.path!r} is in the layer twice, or is a file and a directory at once")
        written.add(parts)
        yield from _file(file, "/".join(parts), mtime)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(file: LayerFile, name: str, mtime: int) -> Iterator[bytes]:
    with io.BytesIO(file.source) if isinstance(file.source, bytes) else file.source.open("rb") as source:
        size = source.seek(0, io.SEEK_END)
        source.seek(0)
        yield _header(name, tarfile.REGTYPE, file.mode & 0o7777, size, mtime)
        left = size
        while left and (data := source.read(min(_CHUNK, left))):
            left -= len(data)
            yield data
        if left or source.read(1):
            raise ImageToolsError(f"{file.source!s:.200} changed while it was read", hint="try again")
    yield bytes(-size % tarfile.BLOCKSIZE)


def _header(name: str, kind: bytes, mode: int, size: int, mtime: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, mtime
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _parts(path: str) -> tuple[str, ...]:
    parts = tuple(path.split("/"))
    if any(part in {"", ".", ".."} or part.startswith(".wh.") or "\0" in part for part in parts):
        raise InvalidImage(
            f"a layer can't have a file named {path!r}",
            hint="give a relative path without '.', '..' and empty parts, and no name that starts with '.wh.'",
        )
    return parts
