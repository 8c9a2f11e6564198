"""An OCI image layout on disk (image-spec 1.1, image-layout.md): blobs by digest, and the index that names images.

Several processes may use one at once. A blob appears whole, by a rename; ``index.json`` changes under a file lock, also
by a rename, and only once all that it comes to name is on the disk.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import DigestMismatch, InvalidImage, LimitExceeded, NotFound, StoreError
from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.repository import CHUNK_SIZE, verify_stream
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, IndexManifest, Manifest, check_digest, parse_manifest
from opmkit.imagetools.store.disk import disk_errors
from opmkit.imagetools.store.private import FILE_MODE, is_open, make_directory, restrict
from opmkit.imagetools.store.reader import read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LOCK = "opmkit.lock"
LOCK_SECONDS = 120.0

VERSION = "oci-layout"
VERSION_CONTENT = b'{"imageLayoutVersion":"1.0.0"}'
INDEX = "index.json"
INGEST = "ingest"
RESULTS = "results"
_MANAGED = frozenset({LOCK, INGEST, RESULTS, "blobs"})
"""What this program writes into a layout's directory before it is a layout."""


def parse_index(raw: bytes, where: str) -> IndexManifest:
    """The content of a layout's index.json; raises InvalidImage, which names ``where`` it stands."""
    index = parse_manifest(raw)
    if isinstance(index, Manifest):
        raise InvalidImage(f"{where} is no image index", hint="the layout is damaged: make it anew")
    return index


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a layout. Nothing is made on disk before something is written.

    Only its user can read a ``private`` one; what others could read of it is restricted by the next write.
    """

    path: Path
    private: bool = False

    @property
    def place(self) -> str:
        """The path, for errors."""
        return str(self.path)

    def blob_path(self, digest: str) -> Path:
        """Where the blob is, or would be."""
        algorithm, _, encoded = check_digest(digest).partition(":")
        return self.path / "blobs" / algorithm / encoded

    def cached(self, descriptor: Descriptor) -> Path | None:
        """The blob's file, its content verified now, or None; a damaged one is removed."""
        path = self.blob_path(descriptor.digest)
        with disk_errors(path):
            try:
                with verify_stream(path.open("rb"), descriptor) as content:
                    while content.read(CHUNK_SIZE):
                        pass
            except FileNotFoundError:
                return None
            except DigestMismatch:
                path.unlink(missing_ok=True)
                return None
        with suppress(OSError):  # that it was asked for now keeps it from being pruned; no matter if others own it
            os.utime(path)
        return path

    def ingest(self, descriptor: Descriptor, stream: BinaryIO) -> Path:
        """Take a blob in and give its file; raises DigestMismatch, and StoreError for what the disk says.

        Not forced to the disk: a blob torn by a power cut is found out when it is next asked for.
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
        """The blob's content, verified when read to its end; raises NotFound."""
        path = self.blob_path(descriptor.digest)
        if not path.is_file():
            raise NotFound(
                f"blob {descriptor.digest} is not in {self.path}", hint="the layout is incomplete: copy anew"
            )
        with disk_errors(path):
            return verify_stream(path.open("rb"), descriptor)

    def blob_size(self, digest: str) -> int | None:
        """The size of a blob in bytes, None where it isn't there."""
        path = self.blob_path(digest)
        with disk_errors(path):
            return path.stat().st_size if path.is_file() else None

    def read_index(self) -> IndexManifest:
        """What the layout names; raises NotFound where there is no layout."""
        with disk_errors(self.path):
            if not (self.path / VERSION).is_file():
                hint = "give the directory of an OCI image layout, such as skopeo copy ... oci:DIR:TAG makes"
                raise NotFound(f"{self.path} is no OCI image layout", hint=hint)
            try:
                with (self.path / INDEX).open("rb") as file:
                    raw = file.read(MAX_MANIFEST_SIZE + 1)
            except FileNotFoundError:
                return IndexManifest.build(())
        return parse_index(raw, str(self.path / INDEX))

    def read_manifest(self, descriptor: Descriptor) -> Manifest | IndexManifest:
        """A manifest or index by its descriptor, verified; raises NotFound and InvalidImage."""
        return read_manifest(self, descriptor)

    def make(self) -> None:
        """Make the layout if it isn't there; raises StoreError for a directory with other things in it."""
        if not (self.path / VERSION).is_file():
            with self.locked():
                pass

    def change_index(
        self, change: Callable[[Sequence[Descriptor]], Sequence[Descriptor]], needs: Sequence[str] = ()
    ) -> None:
        """Replace the list of what the layout names by what ``change`` makes of it.

        The blobs that it comes to need are forced to the disk first; raises StoreError if one isn't there.
        """
        with self.locked():
            self._sync_blobs(needs)
            index = self.read_index()
            manifests = change(index.manifests)
            changed = IndexManifest.build(manifests, index.annotations)
            if len(changed.raw) > MAX_MANIFEST_SIZE:
                raise LimitExceeded(
                    f"{self.path} holds too many images",
                    hint=Hint("remove some with {}", Operation.REMOVE_STORED_IMAGE),
                )
            if tuple(manifests) != index.manifests or not (self.path / INDEX).exists():
                self._replace(INDEX, changed.raw)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with the index, the layout made if it isn't there; raises StoreError if others take too long."""
        from filelock import FileLock, Timeout

        with disk_errors(self.path):
            self._make_directory(self.path)
            lock = FileLock(self.path / LOCK, timeout=LOCK_SECONDS, mode=FILE_MODE if self.private else -1)
            try:
                with lock:
                    self._create()
                    yield
            except Timeout as error:
                hint = "another process is busy with it: wait for that one, or end it"
                raise StoreError(f"{self.path} stays locked for {LOCK_SECONDS:.0f} seconds", hint=hint) from error

    def restrict(self) -> None:
        """Withdraw the permissions of others from a private layout that was created with them."""
        if self.private and is_open(self.path) and not self._has_other_files():
            restrict(self.path)

    def _sync_blobs(self, digests: Sequence[str]) -> None:
        paths = [self.blob_path(digest) for digest in digests]
        for path in paths:
            if not path.is_file():
                hint = "try again; if another process pruned the layout just now, that was all"
                raise StoreError(f"{path} is missing, so the image can't be saved", hint=hint)
            _sync(path)
        for directory in {path.parent for path in paths}:
            _sync(directory)

    def _create(self) -> None:
        if (self.path / VERSION).exists():
            return
        if self._has_other_files():
            hint = "choose a directory that is empty or not there yet"
            raise StoreError(f"{self.path} has other files in it and is no OCI image layout", hint=hint)
        self._make_directory(self.path / "blobs" / "sha256")
        self._replace(VERSION, VERSION_CONTENT)

    def _replace(self, name: str, content: bytes) -> None:
        with self._new_file() as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
            Path(output.name).replace(self.path / name)
        _sync(self.path)

    @contextmanager
    def _new_file(self) -> Iterator[tempfile._TemporaryFileWrapper[bytes]]:
        """A file to fill and rename; removed if that doesn't come about."""
        directory = self.path / INGEST
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
            self.restrict()
            make_directory(path)
        else:
            path.mkdir(parents=True, exist_ok=True)

    def _has_other_files(self) -> bool:
        return not (self.path / VERSION).exists() and any(entry.name not in _MANAGED for entry in self.path.iterdir())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
