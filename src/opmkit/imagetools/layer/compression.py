"""Compressions of layers: detection, media types and decompression."""

from __future__ import annotations

import gzip
import sys
import tarfile
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, cast

from isal import igzip, igzip_lib
from msgspec import Struct

from opmkit.imagetools.spec import media_types

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

    from opmkit.imagetools.layer.limits import Readable


MAGIC_SIZE = 4
"""Bytes at the start of a blob that identify its compression."""
DECODE_ERRORS = (
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    cast("type[Exception]", igzip_lib.IsalError),
    ValueError,
    OverflowError,
    RecursionError,
)
"""Errors that tarfile and the decompressors raise for damaged data."""
_MAX_ZSTD_WINDOW_LOG = 27
_ZSTD_CHUNK = 1 << 10
"""Compressed bytes decoded at a time: at most 256 blocks, which expand to 128 KiB each."""


class Compression(StrEnum):
    """A compression of layers, in the names that media types use."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


class _ZstdReader:
    """Decompressed zstd (RFC 8878) frames, decoded in small steps, which bounds the memory for hostile data."""

    def __init__(self, blob: Readable) -> None:
        if sys.version_info >= (3, 14):  # slow to import, and hardly any layer needs it
            from compression import zstd
        else:
            from backports import zstd

        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _MAX_ZSTD_WINDOW_LOG}
        self._new_frame: Callable[[], zstd.ZstdDecompressor] = partial(zstd.ZstdDecompressor, options=options)
        self._error = zstd.ZstdError
        self._blob = blob
        self._frame = self._new_frame()
        self._buffer = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        while not self._buffer:
            data = (self._frame.unused_data if self._frame.eof else b"") or self._blob.read(_ZSTD_CHUNK)
            if not data:
                if not self._frame.eof:
                    raise EOFError("unexpected end of a zstd frame")
                return b""
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                self._buffer = memoryview(self._frame.decompress(data))
            except self._error as error:
                raise ValueError(str(error)) from error
        data, self._buffer = self._buffer[:size].tobytes(), self._buffer[size:]
        return data


def _open_gzip(blob: Readable) -> Readable:
    return igzip.IGzipFile(fileobj=blob, mode="rb")  # type: ignore[no-untyped-call]


def _open_uncompressed(blob: Readable) -> Readable:
    return blob


class _Format(Struct, frozen=True):
    media_type: str
    magic: bytes
    open_decompressed: Callable[[Readable], Readable]


_FORMATS = {
    Compression.GZIP: _Format(media_types.OCI_LAYER_GZIP, b"\x1f\x8b", _open_gzip),
    Compression.ZSTD: _Format(media_types.OCI_LAYER_ZSTD, b"\x28\xb5\x2f\xfd", _ZstdReader),
    Compression.NONE: _Format(media_types.OCI_LAYER, b"", _open_uncompressed),
}


def detect_compression(head: bytes) -> Compression:
    """Return the compression of a blob that starts with these MAGIC_SIZE bytes."""
    return next(compression for compression, known in _FORMATS.items() if head.startswith(known.magic))


def layer_media_type(compression: Compression, manifest_type: str = media_types.OCI_MANIFEST) -> str:
    """Return the media type of a layer with this compression in an image with this type of manifest."""
    return media_types.convert_for(manifest_type, _FORMATS[compression].media_type)


def decompress(blob: io.BufferedReader[io.RawIOBase], media_type: str = "") -> Readable:
    """Return the decompressed content of a blob, whose compression is detected from the content.

    Raises:
        tarfile.ReadError: The media type names another compression.
    """
    head = blob.peek(MAGIC_SIZE)
    actual = detect_compression(head)
    named = next((name for name in Compression if media_type.endswith((f"+{name}", f".{name}"))), actual)
    if head and actual is not named:
        content = "not compressed" if actual is Compression.NONE else f"{actual} data"
        raise tarfile.ReadError(f"media type is {media_type}, but content is {content}")
    return _FORMATS[actual].open_decompressed(blob)
