"""Files in the directories of bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.core.files import disk_errors, is_partial
from opmkit.documents.document import MAX_BYTES

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORIES = ("manifests", "metadata")
MAX_TOTAL_BYTES = 64 << 20
"""Maximum size of all files of a bundle; real bundles have a few megabytes."""


def read_files(directory: Path) -> dict[str, bytes]:
    """Read the regular files directly in a directory, by name; an empty mapping if it does not exist.

    Raises:
        InvalidBundle: if a file, or the sum of all files, is too large.
        DiskError: if a file cannot be read.
    """
    files: dict[str, bytes] = {}
    remaining = MAX_TOTAL_BYTES
    with disk_errors(directory):
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if is_partial(path) or not path.is_file():
                continue
            size = path.stat().st_size
            remaining -= size
            if size > MAX_BYTES or remaining < 0:
                subject, limit = (path, MAX_BYTES) if size > MAX_BYTES else (directory, MAX_TOTAL_BYTES)
                raise InvalidBundle(f"{subject} is larger than {limit} bytes", hint="keep only manifests there")
            files[path.name] = path.read_bytes()
    return files
