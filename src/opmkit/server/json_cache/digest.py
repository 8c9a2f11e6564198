"""Digest of a cache: FNV-1a of tar archives of the catalog and the cache.

The archives are not written: their headers and contents are hashed directly. They include names, types, sizes and
permission bits, but neither owners, times nor symbolic links. See ``pkg/cache/json.go`` and ``tar.go`` of
operator-registry; ``archive/tar`` of Go's standard library determines the bytes of the headers.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import struct
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.index.errors import CatalogError, InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_BASIS, _PRIME, _MODULUS = 0xCBF29CE484222325, 0x100000001B3, 1 << 64
_PRIME_INVERSE = pow(_PRIME, -1, 256)
_BUFFER_SIZE = 1 << 20

_BLOCK = 512
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")
_NAME_SIZE, _PREFIX_SIZE = 100, 155
_MAX_OCTAL_SIZE = 8**11 - 1
_FILE, _DIRECTORY, _EXTENDED = b"0", b"5", b"x"


class Fnv1a:
    """An incremental 64-bit FNV-1a hash."""

    __slots__ = ("_buffer", "_value")

    def __init__(self, value: int = _BASIS) -> None:
        """Continue from ``value``, the hash of earlier data."""
        self._value = value
        self._buffer = bytearray()

    def update(self, data: bytes) -> None:
        """Hash ``data``."""
        self._buffer += data
        if len(self._buffer) >= _BUFFER_SIZE:
            self._flush()

    def value(self) -> int:
        """Return the hash of all data so far."""
        if self._buffer:
            self._flush()
        return self._value

    def _flush(self) -> None:
        """Hash the buffer with a library that always starts from the standard basis.

        Only the low byte of the hash takes part in the xor of FNV-1a; the rest is linear. After a leading byte that
        sets the low byte to that of the current value, the result differs from the wanted hash by a known term.
        """
        from fnv_c import fnv1a_64

        lead = (self._value * _PRIME_INVERSE ^ _BASIS) & 0xFF
        start = (_BASIS ^ lead) * _PRIME
        result = fnv1a_64(bytes((lead,)) + self._buffer)
        self._value = (result + (self._value - start) * pow(_PRIME, len(self._buffer), _MODULUS)) % _MODULUS
        self._buffer.clear()


def fnv1a(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of ``data``."""
    from fnv_c import fnv1a_64

    return int(fnv1a_64(data))


def hash_tree(root: Path, value: int = _BASIS) -> int:
    """Return the hash of a directory, continued from ``value``, the hash of another one.

    Raises:
        InvalidCatalog: A file is neither regular, a directory nor a symbolic link.
        DiskError: A file cannot be read.
    """
    hasher = Fnv1a(value)
    with disk_errors(root):
        for name, path, status in _walk(root):
            directory = stat.S_ISDIR(status.st_mode)
            hasher.update(tar_header(name, status.st_mode, 0 if directory else status.st_size, directory=directory))
            if not directory:
                _hash_file(hasher, path)
    hasher.update(bytes(2 * _BLOCK))
    return hasher.value()


def check_file_types(root: Path) -> None:
    """Raise what `hash_tree` raises for files that are neither regular, directories nor symbolic links."""
    with disk_errors(root):
        for _ in _walk(root):
            pass


def _hash_file(hasher: Fnv1a, path: Path) -> None:
    size = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_BUFFER_SIZE):
            hasher.update(piece)
            size += len(piece)
    hasher.update(bytes(-size % _BLOCK))


def _walk(root: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield each directory and file, parents first and siblings by name."""
    pending = [(".", root)]
    while pending:
        name, path = pending.pop()
        status = path.stat() if name == "." else path.lstat()
        if stat.S_ISLNK(status.st_mode):
            continue
        if stat.S_ISDIR(status.st_mode):
            prefix = "" if name == "." else f"{name}/"
            names = sorted((entry.name for entry in os.scandir(path)), key=os.fsencode, reverse=True)
            pending += [(prefix + child, path / child) for child in names]
        elif not stat.S_ISREG(status.st_mode):
            raise InvalidCatalog(f"{path}: unsupported file type", hint="remove it from the catalog directory")
        yield name, path, status


def tar_header(name: str, mode: int, size: int, *, directory: bool) -> bytes:
    """Return the tar header of a file or directory as Go's ``archive/tar`` writes it without owner and time."""
    raw = os.fsencode(name)
    prefix, suffix = _split(raw)
    records = b""
    if not prefix and (not raw.isascii() or len(raw) > _NAME_SIZE):
        records += _pax_record(b"path", raw)
    if size > _MAX_OCTAL_SIZE:
        records += _pax_record(b"size", b"%d" % size)
    kind = _DIRECTORY if directory else _FILE
    if not records:
        return _block(suffix, kind, mode, size, prefix)
    shown = _ascii(raw)
    first = shown[:_NAME_SIZE]
    return _extended(raw, records) + _block(first.rstrip(b"/") if len(shown) > len(first) else first, kind, mode, size)


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Split a name that is too long for its field into prefix and rest, where USTAR allows that."""
    if len(name) <= _NAME_SIZE or not name.isascii():
        return b"", name
    at = name.rfind(b"/", 0, _PREFIX_SIZE + 1)
    fits = 0 < at <= _PREFIX_SIZE and 0 < len(name) - at - 1 <= _NAME_SIZE
    return (name[:at], name[at + 1 :]) if fits else (b"", name)


def _extended(name: bytes, records: bytes) -> bytes:
    """Return the PAX header with these records, padded to whole blocks."""
    parent, _, last = name.rpartition(b"/")
    shown = _ascii(posixpath.join(parent, b"PaxHeaders.0", last))[:_NAME_SIZE].rstrip(b"/")
    head = _block(shown, _EXTENDED, 0, len(records), device=b"")
    return head + records + bytes(-len(records) % _BLOCK)


def _block(name: bytes, kind: bytes, mode: int, size: int, prefix: bytes = b"", *, device: bytes = b"0000000") -> bytes:
    octal_size = b"%011o" % (size if size <= _MAX_OCTAL_SIZE else 0)
    fields = [name, b"%07o" % stat.S_IMODE(mode), b"0000000", b"0000000", octal_size, b"%011o" % 0]
    rest = [kind, b"", b"ustar", b"00", b"", b"", device, device, prefix]
    checksum = b"%06o\0 " % sum(_HEADER.pack(*fields, b" " * 8, *rest))
    return _HEADER.pack(*fields, checksum, *rest)


def _pax_record(key: bytes, value: bytes) -> bytes:
    """Return a record that starts with its own length."""
    size = len(key) + len(value) + 3
    size += len(str(size))
    size = len(b"%d %s=%s\n" % (size, key, value))
    return b"%d %s=%s\n" % (size, key, value)


def _ascii(name: bytes) -> bytes:
    return bytes(byte for byte in name if byte < 0x80)


DIGEST, CONTENT = "digest", "cache"
PACKAGES, METAS = "packages.json", "metas"
DOCUMENTS = "documents"
"""The file with the documents for the web API, which the digest does not cover, and which only opmkit reads."""
DIRECTORY_MODE, FILE_MODE = 0o750, 0o640
SCHEMA_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
"""Schemas and packages that operator-registry lets clients ask for."""
POGREB = "pogreb.v1"
"""The directory of operator-registry's other format, a key-value database that opmkit cannot read."""


def bundle_file(package: str, channel: str, bundle: str) -> str:
    """Return the path of a bundle's file in the content directory; raises CatalogError for names that leave it."""
    path = posixpath.normpath(f"{package}_{channel}_{bundle}.json")
    if path.startswith(("/", "../")) or "\0" in path:
        raise CatalogError(
            f'package "{package}", channel "{channel}", bundle "{bundle}": invalid as a file name',
            hint="rename the channel or the bundle",
        )
    return path


def create_file(path: Path, data: bytes) -> None:
    """Write a new file; raises OSError, also if it already exists."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(data)
