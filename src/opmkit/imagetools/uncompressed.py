"""Images with uncompressed layers, as docker and podman store them, and the compression of their layers."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeGuard

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import DISK_LIMITS, Compression, LimitTracker, read_tar, write_tar
from opmkit.imagetools.layer.compression import layer_media_type
from opmkit.imagetools.repository import verify_stream
from opmkit.imagetools.spec import media_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.layer import Layer
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor, Manifest

_UNCOMPRESSED = frozenset(layer_media_type(Compression.NONE, family) for family in media_types.MANIFESTS)


class UncompressedImage:
    """An `ImageSource` of one image whose layers may be uncompressed; its manifest is generated to match them."""

    def __init__(self, name: str, manifest: Manifest, blobs: Mapping[str, BlobOpener]) -> None:
        """Create a source.

        Args:
            name: The name of the archive or engine, for error messages.
            manifest: The manifest.
            blobs: Functions that open the blobs, by digest.
        """
        self._name = name
        self._manifest = manifest
        self._blobs = blobs

    def resolve(self, identifier: str) -> Descriptor:
        """Return the manifest's descriptor; ``identifier`` is its digest or empty."""
        return self.get_manifest(identifier).descriptor

    def get_manifest(self, identifier: str) -> Manifest:
        """Return the manifest; ``identifier`` is its digest or empty."""
        if identifier not in ("", self._manifest.digest):
            raise NotFound(f"{self._name}: image {identifier} not found", hint="name the image without a digest")
        return self._manifest

    def get_config(self, descriptor: Descriptor) -> bytes:
        """Read a small blob into memory and verify it."""
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob; reading it to the end verifies it."""
        if descriptor.digest not in self._blobs:
            raise NotFound(f"{self._name}: blob {descriptor.digest} not found")
        return verify_stream(self._blobs[descriptor.digest](), descriptor, self._name)

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """Return nothing: archives and engines store no artifacts."""
        return ()

    def tags(self) -> Iterator[str]:
        """Return an empty iterator: the source is one image, selected by name before."""
        return iter(())


def compress_layers(image: Image | ImageIndex, directory: Path, progress: Progress = NO_PROGRESS) -> Image | ImageIndex:
    """Compress the uncompressed layers of an image from an archive or engine into files in ``directory``.

    Compression is reproducible. Images from other sources are returned unchanged.
    """
    return image.replace_layers(_compress(image, directory, progress)) if _is_uncompressed(image) else image


@contextmanager
def compressed_layers(image: Image | ImageIndex, progress: Progress = NO_PROGRESS) -> Iterator[Image | ImageIndex]:
    """Provide the image with compressed layers, in files that exist until the end of the block."""
    if not _is_uncompressed(image):
        yield image
        return
    with ScratchDirectory("opm-layers-") as scratch:
        yield compress_layers(image, Path(scratch), progress)


def _is_uncompressed(image: Image | ImageIndex) -> TypeGuard[Image]:
    return isinstance(image, Image) and isinstance(image.source, UncompressedImage)


def _compress(image: Image, directory: Path, progress: Progress) -> dict[str, Layer]:
    """Compress the uncompressed layers; return the new layers by the old digests."""
    layers = {
        descriptor.digest: (descriptor, opener)
        for descriptor, opener in image.layers
        if descriptor.media_type in _UNCOMPRESSED and descriptor.digest not in image.local_layers
    }
    tracker = LimitTracker(DISK_LIMITS)

    def blocks(digest: str) -> Iterator[bytes]:
        for block in read_tar(layers[digest], tracker):
            yield block
            progress.advance(len(block))

    progress.begin("Compressing layers", sum(descriptor.size for descriptor, _ in layers.values()))
    try:
        return {digest: write_tar(blocks(digest), directory) for digest in layers}
    finally:
        progress.end()
