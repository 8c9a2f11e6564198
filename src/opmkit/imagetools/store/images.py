"""The embedded image store: an OCI layout of the user's, which is a cache of blobs as well."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.spec import ImageConfig, IndexManifest, Manifest, Platform, media_types
from opmkit.imagetools.store.layout import INGEST, RESULTS, Layout
from opmkit.imagetools.store.private import private_directory
from opmkit.imagetools.store.reader import REF_NAME
from opmkit.imagetools.store.repository import LayoutRepository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.spec import Descriptor

GRACE = 3600.0


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in the store: its full name ("" if none), its size in bytes as it is stored, and its platforms."""

    name: str
    digest: str
    size: int
    created: str
    platforms: tuple[Platform, ...]


@dataclass(frozen=True, slots=True)
class ImageStore:
    """Images by their full names (``quay.io/ns/name:tag``), and blobs by digest that may be of no image."""

    layout: Layout

    @classmethod
    def open(cls, path: Path | None = None) -> ImageStore:
        """The store at the path, else at ``OPM_STORE``, else where the user keeps data; made by the first write.

        Who has no home, or may not write there, as in many pods, keeps them in the directory for temporary files.
        Raises StoreError where that can't be, either.
        """
        named = os.environ.get("OPM_STORE")
        return cls(Layout((path or (Path(named) if named else _default_path())).absolute(), private=True))

    def repository(self, name: str) -> LayoutRepository:
        """The images called ``name`` (registry and repository) by their tags."""
        return LayoutRepository(self.layout.path, name, private=self.layout.private)

    def ingest(self, descriptor: Descriptor, stream: BinaryIO) -> Path:
        """Take a blob in and give its file; raises DigestMismatch and StoreError."""
        self.layout.make()
        return self.layout.ingest(descriptor, stream)

    def cached(self, descriptor: Descriptor) -> Path | None:
        """The blob's file, its content verified now, or None."""
        return self.layout.cached(descriptor)

    def results(self, name: str) -> Path:
        """A directory for files, in directories, with what was worked out from images; `prune` deletes old ones."""
        self.layout.restrict()
        return self.layout.path / RESULTS / name

    def list(self) -> list[StoredImage]:
        """The images there are, by name."""
        try:
            index = self.layout.read_index()
        except NotFound:
            return []
        stored = (self._stored(descriptor) for descriptor in index.manifests)
        return sorted(stored, key=lambda image: (image.name, image.digest))

    def remove(self, reference: Reference) -> None:
        """Forget the image of that tag, or all of that digest; its blobs stay until pruned. Raises NotFound."""
        tagged = str(reference.with_default_tag())

        def others(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            left = [manifest for manifest in manifests if not _is_meant(manifest, reference, tagged)]
            if len(left) == len(manifests):
                raise NotFound(
                    f"{self.layout.path}: no image {reference}",
                    hint=Hint("list the stored images with {}", Operation.LIST_STORED_IMAGES),
                )
            return left

        self.layout.change_index(others)

    def prune(self, grace: float = GRACE) -> int:
        """Delete what no image needs and no one has used for ``grace`` seconds; the bytes that it freed.

        The grace is for other processes: the blobs of an image come before the image.
        """
        freed = 0
        with self.layout.locked():
            needed = {self.layout.blob_path(digest) for digest in self._needed()}
            last_use = time.time() - grace
            patterns = ("blobs/*/*", f"{INGEST}/*", f"{RESULTS}/*/*/*")
            for path in [path for pattern in patterns for path in self.layout.path.glob(pattern)]:
                with suppress(FileNotFoundError):  # a blob that came in whole just now has moved
                    status = path.stat()
                    if path not in needed and status.st_mtime <= last_use:
                        path.unlink()
                        freed += status.st_size
        return freed

    def _needed(self) -> set[str]:
        needed: set[str] = set()
        found = [*self.layout.read_index().manifests]
        while found:
            part = found.pop()
            if part.digest not in needed:
                needed.add(part.digest)
                if part.media_type in media_types.MANIFESTS | media_types.INDEXES:
                    found.extend(self.layout.read_manifest(part).children)
        return needed

    def _stored(self, descriptor: Descriptor) -> StoredImage:
        manifest = self.layout.read_manifest(descriptor)
        parts = manifest.images if isinstance(manifest, IndexManifest) else [descriptor]
        images = [image for image in map(self.layout.read_manifest, parts) if isinstance(image, Manifest)]
        repository = self.repository("")
        configs = [ImageConfig.parse(repository.get_config(image.config)) for image in images]
        blobs = {
            part.digest: part.size for part in (descriptor, *(part for image in images for part in image.children))
        }
        return StoredImage(
            name=descriptor.annotations.get(REF_NAME, ""),
            digest=descriptor.digest,
            size=sum(blobs.values()),
            created=max((config.created for config in configs), default=""),
            platforms=tuple(config.platform for config in configs),
        )


def _is_meant(manifest: Descriptor, reference: Reference, tagged: str) -> bool:
    name = manifest.annotations.get(REF_NAME, "")
    if reference.digest:
        return manifest.digest == reference.digest and (not name or name.startswith(f"{reference.name}:"))
    return name == tagged


def _default_path() -> Path:
    from platformdirs import user_data_path

    with suppress(RuntimeError):  # there is no home
        path = user_data_path("opmkit")
        if path.is_absolute() and _writable(path):
            return path
    return private_directory() / "store"


def _writable(path: Path) -> bool:
    """Whether a directory, there or to be made, may be written."""
    there = next(each for each in (path, *path.parents) if os.path.exists(each))  # noqa: PTH110 (no error if hidden)
    return os.access(there, os.W_OK | os.X_OK)
