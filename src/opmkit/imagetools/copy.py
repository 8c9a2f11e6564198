"""Copying of images to repositories."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.image import Image
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.uncompressed import compressed_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.repository import BlobOpener, ImageSource, Repository
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest


def copy_image(
    image: Image | ImageIndex,
    target: Repository,
    tag: str | None,
    *,
    replacing: str | None = None,
    workers: int = 4,
    progress: Progress = NO_PROGRESS,
) -> Descriptor:
    """Copy an image to ``target``: first its blobs, ``workers`` at a time, then its manifests, then the tag.

    A failure leaves the tag unchanged. Uncompressed layers of an archive or engine are compressed, so that the copy has
    another digest. Raises the errors of the source and the target.

    Args:
        image: The image or index.
        target: The repository.
        tag: The tag to create or move.
        replacing: The digest that the tag must currently name, see `Repository.put_manifest`.
        workers: The number of concurrent transfers.
        progress: A receiver of progress reports.
    """
    with compressed_layers(image, progress) as compressed:
        _copy_blobs(compressed, target, workers, progress)
        *children, root = all_manifests(compressed)
        for manifest in children:
            target.put_manifest(manifest)
        return target.put_manifest(root, tag, replacing=replacing)


def _copy_blobs(image: Image | ImageIndex, target: Repository, workers: int, progress: Progress) -> None:
    blobs = {blob.descriptor.digest: blob for blob in all_blobs(image)}
    progress.begin("Copying", sum(blob.descriptor.size for blob in blobs.values()))
    try:
        with WorkerPool(workers, "copy") as pool:
            futures = [pool.submit(_put, blob, target, progress) for blob in blobs.values()]
            for future in futures:
                future.result()
    finally:
        progress.end()


class Blob(Struct, frozen=True):
    """A blob of an image, the function that opens it, and the source that it can be mounted from."""

    descriptor: Descriptor
    opener: BlobOpener
    source: ImageSource | None


def _put(blob: Blob, target: Repository, progress: Progress) -> None:
    target.put_blob(blob.descriptor, blob.opener, mount_from=blob.source)
    progress.advance(blob.descriptor.size)


def all_manifests(image: Image | ImageIndex) -> tuple[Manifest | IndexManifest, ...]:
    """Return the manifests of an image, an index after its children."""
    if isinstance(image, Image):
        return (image.manifest,)
    return (*(child.manifest for child in image.images), *image.artifacts, image.index)


def all_blobs(image: Image | ImageIndex) -> Iterator[Blob]:
    """Yield the blobs of an image, without foreign layers; shared blobs are repeated."""
    for child in [image] if isinstance(image, Image) else image.images:
        for descriptor, opener in child.layers:
            if not media_types.is_foreign(descriptor.media_type):
                yield Blob(descriptor, opener, None if descriptor.digest in child.local_layers else child.source)
        yield Blob(child.manifest.config, partial(io.BytesIO, child.config.raw), child.source)
    if not isinstance(image, Image) and image.source is not None:
        for manifest in image.artifacts:
            for descriptor in manifest.children:
                yield Blob(descriptor, partial(image.source.open_blob, descriptor), image.source)
