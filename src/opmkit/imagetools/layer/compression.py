"""What is compressed by gzip (RFC 1952) or zstd (RFC 8878), read as a stream."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING, Protocol, cast

import zstandard
from isal import igzip, igzip_lib

from opmkit.imagetools.errors import InvalidImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.layer.limits import Meter
    from opmkit.imagetools.layer.reader import LayerSource

DAMAGED = (
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    cast("type[Exception]", igzip_lib.IsalError),
    zstandard.ZstdError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What reading a damaged archive raises."""

_CHUNK = 1 << 18
_WINDOW = 1 << 27
_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}


class Readable(Protocol):
    """What gives at most so many bytes at a time, none at its end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


def compression_of(head: bytes) -> str:
    """``gzip`` or ``zstd`` by the first four bytes of the content, "" where it is neither."""
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), "")


class _Zstd:
    """The content of zstd frames. zstandard's own reader takes a frame that is cut off for one that ends."""

    def __init__(self, blob: Readable) -> None:
        self._blob = blob
        self._frame = self._next_frame()
        self._ready = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        while not self._ready:
            # A piece of 1 KiB is at most 256 blocks, which expand to 128 KiB each.
            data = (self._frame.unused_data if self._frame.eof else b"") or self._blob.read(1 << 10)
            if not data:
                if not self._frame.eof:
                    raise EOFError("it ends within a zstd frame")
                return b""
            if self._frame.eof:
                self._frame = self._next_frame()
            self._ready = memoryview(self._frame.decompress(data))
        data, self._ready = self._ready[:size].tobytes(), self._ready[size:]
        return data

    @staticmethod
    def _next_frame() -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()


def decompressed(blob: io.BufferedReader[io.RawIOBase], media_type: str) -> Readable:
    """The tar inside. The content's magic decides; a media type that names a compression has to agree with it."""
    head = blob.peek(4)
    found = compression_of(head)
    said = next((name for name in _MAGIC if media_type.endswith((f"+{name}", f".{name}"))), found)
    if head and found != said:
        raise tarfile.ReadError(f"its type {media_type} says {said}, its content is {found or 'not compressed so'}")
    if found == "gzip":
        return igzip.IGzipFile(fileobj=blob, mode="rb")  # type: ignore[no-untyped-call]
    if found == "zstd":
        return _Zstd(blob)
    return blob


def read_tar(source: LayerSource, meter: Meter) -> Iterator[bytes]:
    """The tar archive of a layer in pieces, the blob read to its end; raises InvalidImage and LimitExceeded."""
    descriptor, opener = source
    subject = f"layer {descriptor.digest}"
    with io.BufferedReader(cast("io.RawIOBase", opener()), _CHUNK) as blob:
        try:
            archive = decompressed(blob, descriptor.media_type)
            while data := archive.read(_CHUNK):
                meter.spend("total_bytes", len(data), subject)
                yield data
            while blob.read(_CHUNK):
                pass
        except DAMAGED as error:
            reason = str(error) or type(error).__name__
            raise InvalidImage(f"{subject}: it is damaged: {reason}", hint="build the image anew") from error
