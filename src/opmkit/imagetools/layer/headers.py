"""Headers of tar archives that tarfile reads as Go's archive/tar does, by which clusters unpack images.

Where the two differ, an archive could have a file in a cluster that opmkit does not see. Such headers are errors: no
tool writes them.
"""

from __future__ import annotations

import re
import tarfile

_BLOCK = tarfile.BLOCKSIZE
_TYPE = slice(156, 157)
_SIZE = slice(124, 136)
_PREFIX = slice(345, 500)
_MAGIC = slice(257, 263)
_STAR_TRAILER = slice(508, 512)
_PAX, _PAX_GLOBAL, _PAX_SOLARIS = tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE
_LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_EXTENSIONS = (_PAX, _PAX_GLOBAL, *_LONG_NAMES)
_OCTAL = re.compile(rb" *[0-7]*[ \0]*")
_BINARY = b"\x80"
_SPARSE_CONTINUES = {tarfile.GNUTYPE_SPARSE: 482, b"": 504}
"""Position of the flag for a further block of a GNU sparse map, in its header and in a further block."""
_RECORD = re.compile(rb"([1-9][0-9]{0,5}) ([^=\0]+)=")
_INTEGER = re.compile(rb"-?[0-9]+")
_PLACES = (b"path", b"linkpath", b"size")
"""Keys of pax that decide where an entry, or the next one, is."""


class HeaderCheck:
    """A check of the blocks that tarfile reads as headers, in their order."""

    def __init__(self) -> None:
        """Begin at the start of an archive."""
        self._extensions: list[bytes] = []
        self._body: tuple[bytes, int] | None = None
        self._is_sparse_map = False

    def check(self, block: bytes) -> None:
        """Check the next block, or the body that the last header announced; raise HeaderError."""
        if self._is_sparse_map:
            self._is_sparse_map = len(block) == _BLOCK and bool(block[_SPARSE_CONTINUES[b""]])
        elif self._body is not None:
            (kind, size), self._body = self._body, None
            if block[size:].strip(b"\0"):
                raise tarfile.HeaderError("extended header with more than its size")
            if kind not in _LONG_NAMES:
                _check_records(block[:size], is_global=kind == _PAX_GLOBAL)
        elif len(block) == _BLOCK and block.strip(b"\0"):
            self._check_header(block)

    def _check_header(self, block: bytes) -> None:
        kind = block[_TYPE]
        _check_fields(block, kind)
        if kind not in _EXTENSIONS:
            self._extensions = []
            self._is_sparse_map = kind == tarfile.GNUTYPE_SPARSE and bool(block[_SPARSE_CONTINUES[kind]])
            return
        # tarfile lets the first of several apply, and Go the last; a global one ends those before it in Go
        if kind in self._extensions or _PAX in self._extensions or (kind == _PAX_GLOBAL and self._extensions):
            raise tarfile.HeaderError("several extended headers for one entry")
        self._extensions = [] if kind == _PAX_GLOBAL else [*self._extensions, kind]
        self._body = kind, _size_of(block)


def check_end(last: bytes, following: bytes) -> None:
    """Check the block that tarfile took for the end of the archive, and the next one; raise HeaderError."""
    if last.strip(b"\0"):
        raise tarfile.HeaderError("damaged header")
    if following.strip(b"\0"):
        raise tarfile.HeaderError("one block of zeros before the end")


def _check_fields(block: bytes, kind: bytes) -> None:
    if kind == _PAX_SOLARIS:
        raise tarfile.HeaderError("extended header of Solaris")
    _size_of(block)
    is_ustar = block[_MAGIC] == tarfile.POSIX_MAGIC[:6] and block[_STAR_TRAILER] != b"tar\0"
    if not is_ustar and block[_PREFIX][:1].strip(b"\0") and kind not in tarfile.GNU_TYPES:
        raise tarfile.HeaderError("prefix of a name in a header that is not ustar")


def _size_of(block: bytes) -> int:
    size = block[_SIZE]
    if size[:1] == _BINARY:
        return int.from_bytes(size[1:])
    if size[:1] == b"\xff":
        raise tarfile.HeaderError("negative size")
    if not _OCTAL.fullmatch(size):
        raise tarfile.HeaderError("invalid size")
    return int(size.strip(b" \0") or b"0", 8)


def _check_records(body: bytes, *, is_global: bool) -> None:
    """Check the records of pax: 'LENGTH KEY=VALUE' and a line feed."""
    position = 0
    while position < len(body):
        match = _RECORD.match(body, position)
        end = position + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(body) or body[end - 1 : end] != b"\n":
            raise tarfile.HeaderError("invalid record of an extended header")
        key, value = match[2], body[match.end() : end - 1]
        if key.startswith(b"GNU.sparse."):
            raise tarfile.HeaderError("unsupported sparse file")
        if key in _PLACES and (is_global or not value or (key == b"size" and not _INTEGER.fullmatch(value))):
            raise tarfile.HeaderError(f"invalid {key.decode()} in an extended header")
        position = end
