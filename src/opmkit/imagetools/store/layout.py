"""An OCI image layout on disk (image-spec 1.1, image-layout.md): blobs by digest, and an index of named images.

Several processes can use a layout concurrently. Blobs are added atomically, by a rename. ``index.json`` is replaced in
the same way under a file lock, after all blobs that it refers to have been synced to disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from msgspec import Struct

from opmkit.core.cache import CACHE_DIRECTORY
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.files import FILE_MODE, disk_errors, make_directory, make_output_directory, sync_to_disk
from opmkit.core.hints import Hint
from opmkit.core.locks import locked_file
from opmkit.core.private_files import UntrustedFile, check_private, distrust, is_shared, open_private, restrict
from opmkit.imagetools.errors import DigestMismatch, InvalidImage, NotFound, prefix_errors
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.repository import CHUNK_SIZE, verify_stream
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, check_digest, parse_manifest
from opmkit.imagetools.store.layout_files import INDEX_FILE, LAYOUT_FILE
from opmkit.imagetools.store.reader import read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LAYOUT_CONTENT = b'{"imageLayoutVersion":"1.0.0"}'
MAX_INDEX_SIZE = 64 << 20
"""Bytes of the index of a layout, which has about 250 for an image; mirrors have tens of thousands of images."""
MAX_INDEX_IMAGES = 1 << 18
LOCK_FILE = "opmkit.lock"
LOCK_TIMEOUT_SECONDS = 120.0
INGEST_DIRECTORY = "ingest"
_OWN_FILES = frozenset({LOCK_FILE, INGEST_DIRECTORY, CACHE_DIRECTORY, "blobs"})
"""Files that opmkit may create in the directory of a layout before the layout itself."""


def parse_index(raw: bytes, location: str) -> IndexManifest:
    """Parse the ``index.json`` of a layout; raise InvalidImage, which names ``location``."""
    with prefix_errors(location):
        index = parse_manifest(raw, max_size=MAX_INDEX_SIZE, max_manifests=MAX_INDEX_IMAGES)
    if isinstance(index, Manifest):
        raise InvalidImage(f"{location} is not an image index", hint="create the layout again")
    return index


class Layout(Struct, frozen=True):
    """The files of a layout, which the first write creates.

    A ``private`` layout is accessible to its user only. Permissions to read that others have are removed by the next
    write; if others can write, nothing is read or written: all methods raise UntrustedFile.
    """

    path: Path
    private: bool = False

    @property
    def location(self) -> str:
        """The path, for errors."""
        return str(self.path)

    def blob_path(self, digest: str) -> Path:
        """Return the path of a blob, whether or not it exists."""
        algorithm, _, encoded = check_digest(digest).partition(":")
        return self.path / "blobs" / algorithm / encoded

    def find_blob(self, descriptor: Descriptor) -> Path | None:
        """Verify a blob and return its file, or None; a damaged file is removed.

        The modification time is set to now, which protects the blob from being pruned.
        """
        path = self.blob_path(descriptor.digest)
        self._check(path.parent)
        with disk_errors(path):
            try:
                with verify_stream(self._open(path, has_digest=True), descriptor) as content:
                    while content.read(CHUNK_SIZE):
                        pass
            except (FileNotFoundError, UntrustedFile):  # another user could change the file after it was verified
                return None
            except DigestMismatch:
                path.unlink(missing_ok=True)
                return None
        with suppress(OSError):  # the file may belong to another user
            os.utime(path)
        return path

    def ingest(self, descriptor: Descriptor, stream: BinaryIO) -> Path:
        """Add a blob and return its file.

        The file is not synced to disk: a blob that a power failure truncates is detected by find_blob.

        Raises:
            DigestMismatch: The content does not match the descriptor.
            DiskError: The file cannot be written.
        """
        path = self.blob_path(descriptor.digest)
        with verify_stream(stream, descriptor) as content, self._new_file() as output:
            while data := content.read(CHUNK_SIZE):
                output.write(data)
            output.flush()
            self._make_directory(path.parent)
            Path(output.name).replace(path)
        return path

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end; raise NotFound if it does not exist."""
        path = self.blob_path(descriptor.digest)
        if not path.is_file():
            raise NotFound(f"{self.path}: blob {descriptor.digest} not found", hint="copy the image there again")
        self._check(path.parent)
        with disk_errors(path):
            return verify_stream(self._open(path, has_digest=True), descriptor, self.location)

    def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob in bytes, None if it does not exist, or `find_blob` would not use it."""
        path = self.blob_path(digest)
        self._check(path.parent)
        with disk_errors(path):
            if not path.is_file():
                return None
            status = path.stat()
            return None if self.private and distrust(status) else status.st_size

    def read_index(self) -> IndexManifest:
        """Return the content of ``index.json``; raise NotFound if there is no layout."""
        self._check(self.path)
        with disk_errors(self.path):
            if not (self.path / LAYOUT_FILE).is_file():
                hint = "pass the directory of an OCI image layout, such as skopeo copy ... oci:DIR:TAG creates"
                raise NotFound(f"{self.path} is not an OCI image layout", hint=hint)
            try:
                with self._open(self.path / INDEX_FILE) as file:
                    raw = file.read(MAX_INDEX_SIZE + 1)
            except FileNotFoundError:
                return IndexManifest.build(())
        return parse_index(raw, str(self.path / INDEX_FILE))

    def read_manifest(self, descriptor: Descriptor) -> Manifest | IndexManifest:
        """Return a verified manifest or index manifest; raise NotFound or InvalidImage."""
        return read_manifest(self, descriptor)

    def create(self) -> None:
        """Create the layout if it does not exist; raise DiskError if the directory contains other files."""
        if not (self.path / LAYOUT_FILE).is_file():
            with self.lock():
                pass

    def update_index(
        self, update: Callable[[Sequence[Descriptor]], Sequence[Descriptor]], required: Sequence[str] = ()
    ) -> None:
        """Replace the manifests in ``index.json`` with those that ``update`` returns for them.

        The blobs with the ``required`` digests are synced to disk first.

        Raises:
            DiskError: A required blob does not exist, a file cannot be written, or locking timed out.
            LimitExceeded: The index would become larger than MAX_INDEX_SIZE.
        """
        with self.lock():
            self._sync_blobs(required)
            index = self.read_index()
            manifests = update(index.manifests)
            updated = IndexManifest.build(manifests, index.annotations)
            if len(updated.raw) > MAX_INDEX_SIZE:
                raise LimitExceeded(
                    f"{self.path}: too many images",
                    hint=Hint("remove some with {}", ImageOperation.REMOVE_STORED_IMAGE),
                )
            if tuple(manifests) != index.manifests or not (self.path / INDEX_FILE).exists():
                self._write(INDEX_FILE, updated.raw)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the index, and create the layout if it does not exist; raise DiskError on timeout."""
        with disk_errors(self.path):
            self._make_directory(self.path)
            mode = FILE_MODE if self.private else 0o644
            with locked_file(self.path / LOCK_FILE, str(self.path), LOCK_TIMEOUT_SECONDS, mode):
                self._initialize()
                yield

    def remove_stale_files(self, age: float) -> None:
        """Remove temporary files that nothing was written to for ``age`` seconds."""
        last_use = time.time() - age
        with disk_errors(self.path):
            for path in (self.path / INGEST_DIRECTORY).glob("*"):
                with suppress(FileNotFoundError):  # its blob is complete, or another process has removed it
                    if path.stat().st_mtime < last_use:
                        path.unlink()

    def restrict(self) -> None:
        """Remove the permissions of other users from a private layout that was created with them."""
        if self.private and is_shared(self.path) and not self._has_foreign_files():
            restrict(self.path)

    def _check(self, directory: Path) -> None:
        """Raise UntrustedFile if the layout is private, and another user may have written to one of its directories."""
        if self.private:
            check_private(self.path, directory)

    def _open(self, path: Path, *, has_digest: bool = False) -> BinaryIO:
        """Open a file of the layout; raise UntrustedFile if the layout is private, and others may have written it."""
        return os.fdopen(open_private(path, has_digest=has_digest), "rb") if self.private else path.open("rb")

    def _sync_blobs(self, digests: Sequence[str]) -> None:
        paths = [self.blob_path(digest) for digest in digests]
        for path in paths:
            if not path.is_file():
                raise DiskError(f"{path}: blob not found: another process may have pruned the layout", hint="try again")
            sync_to_disk(path)
        for directory in {path.parent for path in paths}:
            sync_to_disk(directory)

    def _initialize(self) -> None:
        if (self.path / LAYOUT_FILE).exists():
            return
        if self._has_foreign_files():
            hint = "use an empty or new directory"
            raise DiskError(f"{self.path} is not an OCI image layout and contains other files", hint=hint)
        self._make_directory(self.path / "blobs" / "sha256")
        self._write(LAYOUT_FILE, LAYOUT_CONTENT)

    def _write(self, name: str, content: bytes) -> None:
        with self._new_file() as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
            Path(output.name).replace(self.path / name)
        sync_to_disk(self.path)

    @contextmanager
    def _new_file(self) -> Iterator[IO[bytes]]:
        """Open a temporary file, which is removed unless the block renames it."""
        directory = self.path / INGEST_DIRECTORY
        with disk_errors(self.path):
            self._make_directory(directory)
            with tempfile.NamedTemporaryFile(dir=directory, delete=False) as output:
                try:
                    os.fchmod(output.fileno(), FILE_MODE if self.private else 0o644)
                    yield output
                finally:
                    Path(output.name).unlink(missing_ok=True)

    def _make_directory(self, path: Path) -> None:
        if self.private:
            self._check(path)
            self.restrict()
            make_directory(path)
        else:
            make_output_directory(path)

    def _has_foreign_files(self) -> bool:
        if (self.path / LAYOUT_FILE).exists():
            return False
        return any(entry.name not in _OWN_FILES for entry in self.path.iterdir())
