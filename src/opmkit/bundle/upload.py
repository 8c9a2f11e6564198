"""Archives of bundle directories from untrusted sources."""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opmkit.bundle.errors import NotABundle
from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import InvalidImage, prefix_errors
from opmkit.imagetools.layer import Limits, extract_tree
from opmkit.imagetools.spec import Descriptor, media_types

if TYPE_CHECKING:
    from pathlib import Path


LIMITS = Limits(total_bytes=64 << 20, extracted_bytes=64 << 20, file_bytes=16 << 20, entries=2_000, path_length=512)
"""Limits of the unpacked files."""
MAX_ARCHIVE_SIZE = 16 << 20
_CHUNK = 1 << 20


def unpack_archive(archive: Path, directory: Path, limits: Limits = LIMITS) -> Path:
    """Unpack a zip archive, or a tar archive as an image layer is, and return the directory of the bundle in it.

    The bundle is the root of the archive, or its only directory.

    Raises:
        NotABundle: The archive contains no bundle.
        LimitExceeded: The archive exceeds a limit.
        InvalidImage: The archive is damaged, or paths lead out of it.
        DiskError: The archive cannot be read, or a file cannot be written.
    """
    with disk_errors(archive):
        size = archive.stat().st_size
        if size > MAX_ARCHIVE_SIZE:
            raise LimitExceeded(
                f"{archive.name}: exceeds the limit of {MAX_ARCHIVE_SIZE} bytes",
                hint="check the archive for other files",
            )
        with prefix_errors(archive.name):
            if is_zip(archive):
                extract_zip(archive, directory, limits)
            else:
                _extract_tar(archive, directory, limits)
    entries = [path for path in directory.iterdir() if not path.is_symlink()]
    candidates = [directory, *(entries if len(entries) == 1 else [])]
    for candidate in candidates:
        if (candidate / "manifests").is_dir():
            return candidate
    raise NotABundle(f"{archive.name}: the archive contains no bundle", hint="archive the directory with manifests/")


def _extract_tar(archive: Path, directory: Path, limits: Limits) -> None:
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    descriptor = Descriptor(media_types.OCI_LAYER_GZIP, f"sha256:{digest}", archive.stat().st_size)
    extract_tree([(descriptor, lambda: archive.open("rb"))], directory, limits=limits)


MAX_RATIO = 200
"""Unpacked bytes for each byte of an archive that unpacks to `MIN_BOMB_SIZE` or more; manifests have less than 50."""
MIN_BOMB_SIZE = 1 << 20
_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")
_ENTRY = b"PK\x01\x02"
_MEMBER_CHUNK = 1 << 18
_ENCRYPTED = 0x1
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)
_HINT = "create the archive again, from the directory with manifests/"


def is_zip(archive: Path) -> bool:
    """Return whether a file begins as a zip archive does."""
    with archive.open("rb") as file:
        return file.read(4) in _SIGNATURES


def extract_zip(archive: Path, directory: Path, limits: Limits) -> None:
    """Unpack a zip archive of files and directories; no path leads out of the directory, which must not exist.

    Raises:
        LimitExceeded: The archive exceeds a limit.
        InvalidImage: The archive is damaged or encrypted, or contains a path or an entry that is not allowed.
        DiskError: A file cannot be read or written.
    """
    # Each entry costs memory as soon as the archive is opened.
    with archive.open("rb") as file:
        _check(file.read().count(_ENTRY), limits.entries, "entries")
    try:
        with zipfile.ZipFile(archive) as opened:
            _check_entries(opened.infolist(), archive.stat().st_size, limits)
            with disk_errors(directory):
                directory.mkdir()
                for entry in opened.infolist():
                    _extract(opened, entry, directory)
    except _DAMAGED as error:
        raise InvalidImage(f"damaged zip archive: {error}", hint=_HINT) from error


def _check(count: int, limit: int, unit: str) -> None:
    if count > limit:
        raise LimitExceeded(f"exceeds the limit of {limit} {unit}", hint="check the archive for other files")


def _check_entries(entries: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    """Check all entries before the first one is written."""
    files: set[PurePosixPath] = set()
    directories: set[PurePosixPath] = set()
    for entry in entries:
        path = _check_path(entry, limits)
        _check_kind(entry)
        _check(entry.file_size, limits.file_bytes, "bytes per file")
        if path in files or (path in directories and not entry.is_dir()):
            raise InvalidImage(f"duplicate path {entry.filename!r}", hint=_HINT)
        (directories if entry.is_dir() else files).add(path)
        directories.update(path.parents)
    if conflict := next(iter(sorted(files & directories)), None):
        raise InvalidImage(f"duplicate path {str(conflict)!r}", hint=_HINT)
    unpacked = sum(entry.file_size for entry in entries)
    _check(unpacked, limits.extracted_bytes, "extracted bytes")
    if unpacked >= MIN_BOMB_SIZE:
        _check(unpacked // size, MAX_RATIO, "extracted bytes per byte of the archive")


def _check_path(entry: zipfile.ZipInfo, limits: Limits) -> PurePosixPath:
    """Return the path of an entry; raise InvalidImage if it could be outside of the directory on any system."""
    name = entry.orig_filename
    parts = name.removesuffix("/").split("/")
    if "\\" in name or "\0" in name or not all(parts) or not {".", ".."}.isdisjoint(parts):
        raise InvalidImage(f"invalid path {name!r}", hint=_HINT)
    encoded = [part.encode(errors="replace") for part in parts]
    _check(len(name.encode(errors="replace")), limits.path_length, "bytes per path")
    _check(max(map(len, encoded)), limits.name_length, "bytes per name")
    _check(len(parts), limits.path_depth, "components per path")
    return PurePosixPath(*parts)


def _check_kind(entry: zipfile.ZipInfo) -> None:
    """Raise InvalidImage for everything but readable files and directories."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InvalidImage(f"{entry.filename!r}: neither a file nor a directory: links are unsupported", hint=_HINT)
    if entry.flag_bits & _ENCRYPTED:
        raise InvalidImage(f"{entry.filename!r}: encrypted entries are unsupported", hint=_HINT)
    if entry.compress_type not in _COMPRESSIONS:
        raise InvalidImage(f"{entry.filename!r}: unsupported compression method {entry.compress_type}", hint=_HINT)


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, directory: Path) -> None:
    """Write a file, at most as many bytes as the entry declares."""
    path = directory / entry.filename
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(entry) as source, path.open("xb") as target:
        remaining = entry.file_size
        while remaining and (chunk := source.read(min(_MEMBER_CHUNK, remaining))):
            target.write(chunk)
            remaining -= len(chunk)
        if remaining or source.read(1):  # reads to the end, where the checksum is verified
            raise InvalidImage(f"{entry.filename!r}: differs from its declared size", hint=_HINT)
