"""Reading one layer as hostile input: decompression, bounds, and entries whose paths can be trusted."""

from __future__ import annotations

import io
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer.compression import DAMAGED, decompressed
from opmkit.imagetools.layer.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from opmkit.imagetools.layer.compression import Readable
    from opmkit.imagetools.layer.limits import Meter
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor

Kind = Literal["file", "directory", "symlink", "hardlink", "whiteout", "opaque", "other"]

_CHUNK = 1 << 18
HEADER_BYTES = 1 << 16
"""The longest header read: tarfile holds those of pax and GNU in memory as a whole."""
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_AUFS = ".wh..wh."

LayerSource = tuple["Descriptor", "BlobOpener"]
"""A layer's descriptor and a function that opens its blob, verified when read to its end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a layer. ``path`` is relative to the root, without '.' and '..'; "" is the root itself.

    A whiteout's path is what it removes, an opaque marker's is the directory that it empties. ``other`` is a device or
    a pipe. ``target`` is where a link points, as it stands in the archive.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    target: str


class LayerReader:
    """A layer's entries, in the archive's order; a context manager that closes the blob.

    Iterating to the end reads the blob to its end, so that the opener's verification has happened. Raises InvalidImage
    for what is broken or unsafe and LimitExceeded by the meter; both name the layer.
    """

    def __init__(self, descriptor: Descriptor, opener: BlobOpener, meter: Meter) -> None:
        """Open the blob."""
        self._layer = f"layer {descriptor.digest}"
        self._media_type = descriptor.media_type
        self._meter = meter
        self._blob = io.BufferedReader(cast("io.RawIOBase", opener()), _CHUNK)
        self._sparse = False

    def __enter__(self) -> LayerReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blob.close()

    def __iter__(self) -> Iterator[Entry]:
        with self._reported():
            self._stream = _TarStream(decompressed(self._blob, self._media_type), self._meter, self._layer)
            archive = None if self._stream.at_end() else tarfile.TarFile(fileobj=cast("BinaryIO", self._stream))
        while archive is not None and (info := self._next(archive)) is not None:
            self._meter.spend("entries", 1, self._layer)
            self._sparse = info.issparse()
            entry = self._entry(info)
            if entry is not None:
                yield entry
        with self._reported():
            self._stream.finish()
            while self._blob.read(_CHUNK):
                pass

    def content(self, entry: Entry) -> Iterator[bytes]:
        """The content of the file just come to, in pieces."""
        if self._sparse:
            raise self.invalid(f"{entry.path!r} is a sparse file, which layers don't have")
        left = entry.size
        while left:
            with self._reported():
                data = self._stream.pull(min(left, _CHUNK))
            if not data:
                raise self.invalid(f"it ends within {entry.path!r}")
            left -= len(data)
            yield data

    def keep(self, entry: Entry) -> None:
        """Count what it costs to keep an entry; raises LimitExceeded."""
        self._meter.check("file_bytes", entry.size, self._layer)
        self._meter.spend("kept_bytes", len(entry.path) + entry.size, self._layer)

    def invalid(self, reason: str) -> InvalidImage:
        """An error that names the layer."""
        return InvalidImage(f"{self._layer}: {reason}", hint="the image is damaged or hostile: build it anew")

    def _next(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        with self._reported():
            info = archive.next()
        archive.members = []  # type: ignore[attr-defined]  # it remembers every entry: memory without bound
        return info

    def _entry(self, info: tarfile.TarInfo) -> Entry | None:
        if info.size < 0:
            raise self.invalid(f"{info.name[:200]!r} has a negative size")
        path = self.checked_path(info.name)
        if info.linkname:
            self._check_lengths(info.linkname)
        if "\0" in info.linkname:
            raise self.invalid(f"{info.name[:200]!r} points to {info.linkname[:200]!r}, which no link can")
        directory, _, name = path.rpartition("/")
        kind = _kind(info)
        if name == _OPAQUE:
            path, kind = directory, "opaque"
        elif f"/{_AUFS}" in f"/{path}":
            return None
        elif name.startswith(_WHITEOUT):
            removed = name.removeprefix(_WHITEOUT)
            if removed in {"", ".", ".."}:
                raise self.invalid(f"the whiteout {info.name!r} names nothing")
            path, kind = f"{directory}/{removed}".lstrip("/"), "whiteout"
        if not path and kind not in {"directory", "opaque"}:
            raise self.invalid("an entry without a name is no directory, as the root has to be")
        return Entry(path, kind, info.mode, info.size if kind == "file" else 0, info.linkname)

    def checked_path(self, name: str) -> str:
        """The path without leading '/' and './', as other tools read it; raises InvalidImage for any '..'."""
        self._check_lengths(name)
        path = normal_path(name)
        if path is None:
            raise self.invalid(f"the entry {name[:200]!r} points out of the image")
        self._meter.check("path_depth", path.count("/") + bool(path), self._layer)
        return path

    def _check_lengths(self, path: str) -> None:
        encoded = path.encode(errors="surrogateescape")
        self._meter.check("path_length", len(encoded), self._layer)
        self._meter.check("name_length", max(map(len, encoded.split(b"/"))), self._layer)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise self.invalid(f"it is damaged: {error or type(error).__name__}") from error


class _TarStream:
    """A decompressed layer as tarfile wants it, going forward only, metered, and with short reads for headers."""

    def __init__(self, source: Readable, meter: Meter, layer: str) -> None:
        self._source = source
        self._meter = meter
        self._layer = layer
        self._position = 0
        self._ahead = b""
        self._block = b""

    def at_end(self) -> bool:
        """Whether there is no byte at all: an empty layer that some tools write."""
        self._ahead = self.pull(1)
        self._position = 0
        return not self._ahead

    def pull(self, size: int) -> bytes:
        """That many bytes, fewer at the end only."""
        pieces, self._ahead = [self._ahead], b""
        left = size - len(pieces[0])
        while left and (data := self._source.read(left)):
            self._meter.spend("total_bytes", len(data), self._layer)
            left -= len(data)
            pieces.append(data)
        self._position += size - left
        return b"".join(pieces)

    def read(self, size: int) -> bytes:
        """Read a header, for tarfile."""
        if size > HEADER_BYTES:
            raise tarfile.HeaderError(f"a header of {size} bytes")
        self._block = self.pull(size)
        return self._block

    def tell(self) -> int:
        """The position, for tarfile."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip forward, for tarfile."""
        if position < self._position:
            raise tarfile.HeaderError("an entry of negative size")
        while self._position < position and self.pull(min(_CHUNK, position - self._position)):
            pass
        return self._position

    def finish(self) -> None:
        """Read to the end; raises TarError if what tarfile took for the archive's end is a broken header."""
        if self._block.strip(b"\0"):
            raise tarfile.HeaderError("a broken header")
        while self.pull(_CHUNK):
            pass


def _kind(info: tarfile.TarInfo) -> Kind:
    if info.isreg():
        return "file"
    if info.isdir():
        return "directory"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "other"
