"""Read one layer as untrusted input: decompress it within limits, and yield entries whose paths are safe."""

from __future__ import annotations

import io
import tarfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from msgspec import Struct

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer.compression import DECODE_ERRORS, decompress
from opmkit.imagetools.layer.headers import HeaderCheck, check_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from opmkit.imagetools.layer.limits import LayerSource, LimitTracker, Readable
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor


Kind = Literal["file", "directory", "symlink", "hardlink", "whiteout", "opaque", "other"]

MAX_HEADER_SIZE = 1 << 16
"""Bytes of a pax or GNU header: tarfile reads each into memory."""
WHITEOUT_PREFIX = ".wh."
OPAQUE_WHITEOUT = ".wh..wh..opq"
"""Name of the file that marks its directory as opaque (OCI image-spec, layer.md)."""
_AUFS_PREFIX = ".wh..wh."
_CHUNK = 1 << 18
_MAX_NAME_SHOWN = 200


class LayerEntry(Struct, frozen=True):
    """An entry of a layer, with its path relative to the root ("") and without '.' and '..'.

    The path of a whiteout is the path that it removes, that of an opaque whiteout the directory that it empties.
    ``target`` is the unresolved target of a link. ``other`` is a device or a named pipe.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    target: str


class LayerReader:
    """An iterable over the entries of a layer in archive order, and a context manager that closes the blob.

    The blob is verified once the iteration is complete. Iterating raises InvalidImage for a damaged or unsafe archive
    and LimitExceeded; both name the layer.
    """

    def __init__(self, descriptor: Descriptor, opener: BlobOpener, tracker: LimitTracker) -> None:
        """Open the blob."""
        self._subject = f"layer {descriptor.digest}"
        self._media_type = descriptor.media_type
        self._tracker = tracker
        self._blob = _open_buffered(opener)
        self._sparse = False

    def __enter__(self) -> LayerReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blob.close()

    def __iter__(self) -> Iterator[LayerEntry]:
        with _decode_errors(self._subject):
            self._stream = _TarStream(decompress(self._blob, self._media_type), self._tracker, self._subject)
            archive = None if self._stream.is_empty() else tarfile.TarFile(fileobj=cast("BinaryIO", self._stream))
        while archive is not None and (info := self._next_member(archive)) is not None:
            self._tracker.add("entries", 1, self._subject)
            self._sparse = info.issparse()
            entry = self._entry(info)
            if entry is not None:
                yield entry
        with _decode_errors(self._subject):
            self._stream.finish()
            _drain(self._blob)

    def content(self, entry: LayerEntry) -> Iterator[bytes]:
        """Yield the content of the file that the iteration is at."""
        if self._sparse:
            raise self.invalid(f"unsupported sparse file {entry.path!r}")
        left = entry.size
        while left:
            with _decode_errors(self._subject):
                data = self._stream.read_up_to(min(left, _CHUNK))
            if not data:
                raise self.invalid(f"unexpected end of the archive in {entry.path!r}")
            left -= len(data)
            yield data

    def count_extracted(self, entry: LayerEntry) -> None:
        """Count an entry that is going to be extracted; raise LimitExceeded."""
        self._tracker.check("file_bytes", entry.size, self._subject)
        self._tracker.add("extracted_bytes", len(entry.path) + entry.size, self._subject)

    def invalid(self, reason: str) -> InvalidImage:
        """Return an error that names the layer."""
        return _invalid_layer(self._subject, reason)

    def _next_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        with _decode_errors(self._subject):
            info = archive.next()
        archive.members = []  # type: ignore[attr-defined]  # tarfile keeps all of them in memory
        return info

    def _entry(self, info: tarfile.TarInfo) -> LayerEntry | None:
        if info.size < 0:
            raise self.invalid(f"entry {info.name[:_MAX_NAME_SHOWN]!r} has a negative size")
        path = self.checked_path(info.name)
        if info.linkname:
            self._check_lengths(info.linkname)
        if "\0" in info.linkname:
            target = info.linkname[:_MAX_NAME_SHOWN]
            raise self.invalid(f"entry {info.name[:_MAX_NAME_SHOWN]!r}: invalid link target {target!r}")
        directory, _, name = path.rpartition("/")
        kind = _kind(info)
        if name == OPAQUE_WHITEOUT:
            path, kind = directory, "opaque"
        elif f"/{_AUFS_PREFIX}" in f"/{path}":
            return None
        elif name.startswith(WHITEOUT_PREFIX):
            removed = name.removeprefix(WHITEOUT_PREFIX)
            if removed in {"", ".", ".."}:
                raise self.invalid(f"invalid whiteout {info.name!r}")
            path, kind = f"{directory}/{removed}".lstrip("/"), "whiteout"
        if not path and kind not in {"directory", "opaque"}:
            raise self.invalid("the root is not a directory")
        return LayerEntry(path, kind, info.mode, info.size if kind == "file" else 0, info.linkname)

    def checked_path(self, name: str) -> str:
        """Return a path without leading '/' and './', as tar reads it; raise InvalidImage if it contains '..'."""
        self._check_lengths(name)
        path = normalize_path(name)
        if path is None:
            raise self.invalid(f"entry {name[:_MAX_NAME_SHOWN]!r} points outside the image")
        self._tracker.check("path_depth", path.count("/") + bool(path), self._subject)
        return path

    def _check_lengths(self, path: str) -> None:
        encoded = path.encode(errors="surrogateescape")
        self._tracker.check("path_length", len(encoded), self._subject)
        self._tracker.check("name_length", max(map(len, encoded.split(b"/"))), self._subject)


def read_tar(source: LayerSource, tracker: LimitTracker) -> Iterator[bytes]:
    """Yield the decompressed tar archive of a layer in chunks; the blob is verified at the end.

    Raises:
        InvalidImage: The layer is damaged or unsafe.
        LimitExceeded: The layer exceeds a limit.
    """
    descriptor, opener = source
    subject = f"layer {descriptor.digest}"
    with _open_buffered(opener) as blob, _decode_errors(subject):
        archive = decompress(blob, descriptor.media_type)
        while data := archive.read(_CHUNK):
            tracker.add("total_bytes", len(data), subject)
            yield data
        _drain(blob)


class _TarStream:
    """A forward-only file for tarfile over a decompressed layer, which counts bytes and limits the size of headers."""

    def __init__(self, source: Readable, tracker: LimitTracker, subject: str) -> None:
        self._source = source
        self._tracker = tracker
        self._subject = subject
        self._position = 0
        self._peeked = b""
        self._last_header = b""
        self._headers = HeaderCheck()

    def is_empty(self) -> bool:
        """Return whether there is no byte at all: some tools write such layers."""
        self._peeked = self.read_up_to(1)
        self._position = 0
        return not self._peeked

    def read_up_to(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end."""
        pieces, self._peeked = [self._peeked], b""
        left = size - len(pieces[0])
        while left and (data := self._source.read(left)):
            self._tracker.add("total_bytes", len(data), self._subject)
            left -= len(data)
            pieces.append(data)
        self._position += size - left
        return b"".join(pieces)

    def read(self, size: int) -> bytes:
        """Read a header, for tarfile."""
        if size > MAX_HEADER_SIZE:
            raise tarfile.HeaderError(f"header of {size} bytes")
        self._last_header = self.read_up_to(size)
        self._headers.check(self._last_header)
        return self._last_header

    def tell(self) -> int:
        """Return the position, for tarfile."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip forward, for tarfile."""
        if position < self._position:
            raise tarfile.HeaderError("entry of negative size")
        while self._position < position and self.read_up_to(min(_CHUNK, position - self._position)):
            pass
        return self._position

    def finish(self) -> None:
        """Read to the end; raise TarError if tarfile took something else for the end of the archive."""
        check_end(self._last_header, self.read_up_to(tarfile.BLOCKSIZE))
        while self.read_up_to(_CHUNK):
            pass


def _open_buffered(opener: BlobOpener) -> io.BufferedReader[io.RawIOBase]:
    return io.BufferedReader(cast("io.RawIOBase", opener()), _CHUNK)


def _drain(blob: io.BufferedReader[io.RawIOBase]) -> None:
    while blob.read(_CHUNK):
        pass


@contextmanager
def _decode_errors(subject: str) -> Iterator[None]:
    try:
        yield
    except DECODE_ERRORS as error:
        raise _invalid_layer(subject, f"invalid tar archive: {str(error) or type(error).__name__}") from error


def _invalid_layer(subject: str, reason: str) -> InvalidImage:
    return InvalidImage(f"{subject}: {reason}", hint="rebuild the image")


def _kind(info: tarfile.TarInfo) -> Kind:
    if info.isreg():
        return "file"
    if info.isdir():
        return "directory"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "other"


MAX_LINKS = 40
"""Links followed for one path, as many as Linux follows."""


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, topmost first, without the root."""
    return (path[:position] for position, char in enumerate(path) if char == "/")


def is_within(path: str, directory: str) -> bool:
    """Return whether the path is the directory or is below it."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def is_related(path: str, prefixes: Sequence[str]) -> bool:
    """Return whether the path is within a prefix, or a prefix within the path."""
    return any(is_within(path, prefix) or is_within(prefix, path) for prefix in prefixes)


def normalize_prefixes(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes without '.', empty components and trailing slashes."""
    return tuple("/".join(part for part in prefix.split("/") if part not in {"", "."}) for prefix in prefixes)


def normalize_path(name: str) -> str | None:
    """Return the path without leading '/' and './', as tar reads it; None if it contains '..' or NUL."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return None if ".." in parts or "\0" in name else "/".join(parts)


def resolve_link(path: str, target: str) -> str:
    """Return the path that a symbolic link at ``path`` points to, with the image as root; '..' stops at the root."""
    parts = [] if target.startswith("/") else path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
