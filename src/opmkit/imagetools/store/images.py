"""The embedded image store: an OCI layout in the user's data directory."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from opmkit.core.cache import CACHE_DIRECTORY
from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.spec import ImageConfig, IndexManifest, Manifest, Platform, media_types
from opmkit.imagetools.store.directory import store_directory
from opmkit.imagetools.store.layout import INGEST_DIRECTORY, Layout
from opmkit.imagetools.store.reader import REF_NAME, is_attached
from opmkit.imagetools.store.repository import LayoutRepository

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.spec import Descriptor

GRACE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in the store.

    Attributes:
        name: Its full name, "" if it has none.
        digest: Its digest.
        size: Bytes of its stored blobs.
        created: Time of its creation, "" if unknown.
        platforms: Its platforms.
    """

    name: str
    digest: str
    size: int
    created: str
    platforms: tuple[Platform, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PrunedStore(JsonResult):
    """The result of pruning the store.

    Attributes:
        freed: Bytes of the removed blobs.
        directories: Number of temporary directories of killed processes that were removed.
    """

    freed: int
    directories: int


class ImageStore(Struct, frozen=True):
    """A store of images by full name (``quay.io/ns/name:tag``), and of cached blobs, which may belong to no image."""

    layout: Layout

    @classmethod
    def open(cls, path: Path | None = None) -> ImageStore:
        """Return the store at ``path``, else at ``OPM_STORE``, else in the user's data directory.

        Users without a writable home directory, as in many pods, get one in the directory for temporary files. The
        first write creates the store.

        Raises:
            DiskError: No directory is usable.
        """
        return cls(Layout(path.absolute() if path else store_directory(), private=True))

    def repository(self, name: str) -> LayoutRepository:
        """Return the images called ``name`` (registry and repository), by tag."""
        return LayoutRepository(self.layout.path, name, private=self.layout.private)

    def ingest(self, descriptor: Descriptor, stream: BinaryIO) -> Path:
        """Add a blob and return its file; raise DigestMismatch or DiskError."""
        self.layout.create()
        return self.layout.ingest(descriptor, stream)

    def find_blob(self, descriptor: Descriptor) -> Path | None:
        """Verify a blob and return its file, or None."""
        return self.layout.find_blob(descriptor)

    def list(self) -> list[StoredImage]:
        """Return all images, sorted by name, without signatures and other artifacts that belong to them."""
        try:
            index = self.layout.read_index()
        except NotFound:
            return []
        images = (self._describe(image) for image in index.manifests if not is_attached(image))
        return sorted(images, key=lambda image: (image.name, image.digest))

    def remove(self, reference: Reference) -> None:
        """Remove the image with a tag, or all with a digest; `prune` removes its blobs. Raise NotFound."""
        tagged = str(reference.with_default_tag())

        def without(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            retained = [manifest for manifest in manifests if not _matches(manifest, reference, tagged)]
            if len(retained) == len(manifests):
                raise NotFound(
                    f"{self.layout.path}: image {reference} not found",
                    hint=Hint("list the stored images with {}", ImageOperation.LIST_STORED_IMAGES),
                )
            return retained

        self.layout.update_index(without)

    def prune(self, grace: float = GRACE_SECONDS) -> int:
        """Remove what no image needs and nobody has used for ``grace`` seconds; return the number of bytes freed.

        Other processes need the grace period: they store the blobs of an image before its manifest.
        """
        freed = 0
        with self.layout.lock():
            required = {self.layout.blob_path(digest) for digest in self._required_digests()}
            last_use = time.time() - grace
            patterns = ("blobs/*/*", f"{INGEST_DIRECTORY}/*", f"{CACHE_DIRECTORY}/*/*/*")
            for path in [path for pattern in patterns for path in self.layout.path.glob(pattern)]:
                with suppress(FileNotFoundError):  # an ingested blob was renamed in the meantime
                    status = path.stat()
                    if path not in required and status.st_mtime <= last_use:
                        path.unlink()
                        freed += status.st_size
        return freed

    def _required_digests(self) -> set[str]:
        required: set[str] = set()
        pending = [*self.layout.read_index().manifests]
        while pending:
            descriptor = pending.pop()
            if descriptor.digest not in required:
                required.add(descriptor.digest)
                if descriptor.media_type in media_types.MANIFESTS | media_types.INDEXES:
                    pending.extend(self.layout.read_manifest(descriptor).children)
        return required

    def _describe(self, descriptor: Descriptor) -> StoredImage:
        manifest = self.layout.read_manifest(descriptor)
        children = manifest.images if isinstance(manifest, IndexManifest) else [descriptor]
        images = [image for image in map(self.layout.read_manifest, children) if isinstance(image, Manifest)]
        repository = self.repository("")
        configs = [ImageConfig.parse(repository.get_config(image.config)) for image in images]
        blobs = [descriptor, *(blob for image in images for blob in image.children)]
        return StoredImage(
            name=descriptor.annotations.get(REF_NAME, ""),
            digest=descriptor.digest,
            size=sum({blob.digest: blob.size for blob in blobs}.values()),
            created=max((config.created for config in configs), default=""),
            platforms=tuple(config.platform for config in configs),
        )


def _matches(manifest: Descriptor, reference: Reference, tagged: str) -> bool:
    name = manifest.annotations.get(REF_NAME, "")
    if reference.digest:
        return manifest.digest == reference.digest and (not name or name.startswith(f"{reference.name}:"))
    return name == tagged
