"""Images that lie somewhere with uncompressed layers, as docker and podman keep them, and their way from there."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeGuard

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import ON_DISK, Meter, read_tar, write_tar
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.repository import verify_stream
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.spec import media_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.layer import Layer
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor, Manifest

PLAIN = frozenset({media_types.OCI_LAYER, media_types.DOCKER_LAYER})
"""The media types of layers that are not compressed."""


class UncompressedImage:
    """One image, as a Source, whose manifest was made for how its layers lie there; ``place`` names it in errors."""

    def __init__(self, place: str, manifest: Manifest, blobs: Mapping[str, BlobOpener]) -> None:
        """Take the image whose blobs, not verified, are opened by these functions."""
        self._place = place
        self._manifest = manifest
        self._blobs = blobs

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor of the manifest, which has no other name than its digest, or none."""
        return self.get_manifest(identifier).descriptor

    def get_manifest(self, identifier: str) -> Manifest:
        """The manifest."""
        if identifier not in ("", self._manifest.digest):
            raise NotFound(f"{self._place}: no image {identifier}", hint="name the image without a digest")
        return self._manifest

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified."""
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content, verified when read to its end."""
        if descriptor.digest not in self._blobs:
            raise NotFound(f"{self._place}: no blob {descriptor.digest}")
        return verify_stream(self._blobs[descriptor.digest](), descriptor, self._place)

    def tags(self) -> Iterator[str]:
        """None: the image has been chosen already."""
        return iter(())


def compress_layers(image: Image | ImageIndex, directory: Path, progress: Progress = NO_PROGRESS) -> Image | ImageIndex:
    """The image as it goes to a place that keeps manifests and compressed layers.

    Layers that lie uncompressed in an archive or engine are compressed, always to the same bytes, into files in
    ``directory``, which the caller owns. Other images are given as they are.
    """
    return image.replace_layers(_compressed(image, directory, progress)) if _is_unpacked(image) else image


@contextmanager
def compressed_layers(image: Image | ImageIndex, progress: Progress = NO_PROGRESS) -> Iterator[Image | ImageIndex]:
    """What compress_layers gives, with files that are there within the block."""
    if not _is_unpacked(image):
        yield image
        return
    with ScratchDirectory("opm-layers-") as scratch:
        yield compress_layers(image, Path(scratch), progress)


def _is_unpacked(image: Image | ImageIndex) -> TypeGuard[Image]:
    return isinstance(image, Image) and isinstance(image.source, UncompressedImage)


def _compressed(image: Image, directory: Path, progress: Progress) -> dict[str, Layer]:
    """The uncompressed layers by their digests, compressed."""
    plain = {
        descriptor.digest: (descriptor, opener)
        for descriptor, opener in image.layers
        if descriptor.media_type in PLAIN and descriptor.digest not in image.local
    }
    meter = Meter(ON_DISK)

    def blocks(digest: str) -> Iterator[bytes]:
        for block in read_tar(plain[digest], meter):
            yield block
            progress.advance(len(block))

    progress.begin("Compressing layers", sum(descriptor.size for descriptor, _ in plain.values()))
    try:
        return {digest: write_tar(blocks(digest), directory) for digest in plain}
    finally:
        progress.end()
