"""Copying images from where they are to a repository."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from opmkit.imagetools.image import Image
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.uncompressed import compressed_layers
from opmkit.imagetools.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.repository import BlobOpener, Repository, Source
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
    """Make an image be in ``target``: blobs first, ``workers`` at a time, then manifests, then the tag.

    ``replacing`` is the digest that the tag is to be moved from, see :meth:`Repository.put_manifest`. What goes wrong
    before the end leaves the tag as it was. Raises what source and target raise.

    The layers of an image from an archive or engine are compressed, so that the result has another digest.
    """
    with compressed_layers(image, progress) as whole:
        _copy_blobs(whole, target, workers, progress)
        *parts, top = all_manifests(whole)
        for manifest in parts:
            target.put_manifest(manifest)
        return target.put_manifest(top, tag, replacing=replacing)


def _copy_blobs(image: Image | ImageIndex, target: Repository, workers: int, progress: Progress) -> None:
    blobs = {blob.descriptor.digest: blob for blob in all_blobs(image)}
    progress.begin("Copying", sum(blob.descriptor.size for blob in blobs.values()))
    try:
        with WorkerPool(workers, "copy") as pool:
            copies = [pool.submit(_put, blob, target, progress) for blob in blobs.values()]
            try:
                for copy in copies:
                    copy.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        progress.end()


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob of an image: how it is opened, and the place it may be mounted from."""

    descriptor: Descriptor
    opener: BlobOpener
    source: Source | None


def _put(blob: Blob, target: Repository, progress: Progress) -> None:
    target.put_blob(blob.descriptor, blob.opener, mount_from=blob.source)
    progress.advance(blob.descriptor.size)


def all_manifests(image: Image | ImageIndex) -> tuple[Manifest | IndexManifest, ...]:
    """The manifests of an image, what the last one refers to before it."""
    if isinstance(image, Image):
        return (image.manifest,)
    return (*(part.manifest for part in image.images), *image.others, image.index)


def all_blobs(image: Image | ImageIndex) -> Iterator[Blob]:
    """The blobs of an image, but for layers that are kept elsewhere; some may come more than once."""
    for part in [image] if isinstance(image, Image) else image.images:
        for descriptor, opener in part.layers:
            if not media_types.is_foreign(descriptor.media_type):
                yield Blob(descriptor, opener, None if descriptor.digest in part.local else part.source)
        yield Blob(part.manifest.config, partial(io.BytesIO, part.config.raw), part.source)
    if not isinstance(image, Image) and image.source is not None:
        for manifest in image.others:
            for descriptor in (manifest.config, *manifest.layers):
                yield Blob(descriptor, partial(image.source.open_blob, descriptor), image.source)
