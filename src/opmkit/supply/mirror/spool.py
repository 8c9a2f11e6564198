"""Storage of the manifests of a mirror between planning and copying."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opmkit.core.files import disk_errors
from opmkit.imagetools.spec import parse_manifest

if TYPE_CHECKING:
    from opmkit.imagetools.spec import IndexManifest, Manifest


class ManifestSpool:
    """Manifests by digest in an unnamed temporary file, because those of thousands of images need much memory.

    Thread-safe; as a context manager it removes the file. Raises DiskError if the file cannot be written.
    """

    def __init__(self) -> None:
        """Create the file."""
        with disk_errors(Path(tempfile.gettempdir())):
            self._file = tempfile.TemporaryFile(prefix="opm-manifests-", buffering=0)  # noqa: SIM115 - see close
        self._entries: dict[str, tuple[int, int, str]] = {}
        self._end = 0
        self._lock = threading.Lock()

    def add(self, manifest: Manifest | IndexManifest) -> None:
        """Store a manifest, unless it is stored."""
        digest = manifest.digest
        with self._lock, disk_errors(Path(tempfile.gettempdir())):
            if digest not in self._entries:
                os.pwrite(self._file.fileno(), manifest.raw, self._end)
                self._entries[digest] = (self._end, len(manifest.raw), manifest.media_type)
                self._end += len(manifest.raw)

    def get(self, digest: str) -> Manifest | IndexManifest | None:
        """Return a manifest, None if it is not stored."""
        entry = self._entries.get(digest)
        if entry is None:
            return None
        offset, size, media_type = entry
        return parse_manifest(os.pread(self._file.fileno(), size, offset), media_type)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the spool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        self.close()
