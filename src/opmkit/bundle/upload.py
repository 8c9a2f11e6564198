"""Archives of bundle directories from untrusted sources."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from opmkit.bundle.errors import NotABundle
from opmkit.bundle.zip_upload import extract_zip, is_zip
from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import prefix_errors
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
