"""Pin the images of the bundles in a file-based catalog, as a change of an index."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opmkit.author.pin.catalog_images import find_catalog_images
from opmkit.author.pin.pin import changed_images
from opmkit.author.pin.pinnable_file import PinnableFile
from opmkit.author.pin.resolve import PinOptions, resolve_images
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.change import CatalogChange, EditResult
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.author.pin.pin import PinnedImage
    from opmkit.imagetools.reference import Reference
    from opmkit.index.fbc.blobs import Blobs, BundleBlob


@dataclass(frozen=True, slots=True)
class PinReport:
    """The images that were pinned."""

    images: Sequence[PinnedImage]

    def lines(self) -> Iterator[str]:
        """Yield the images with their replacements."""
        return (f"{image.image} -> {image.pinned}" for image in self.images)

    def as_dict(self) -> dict[str, Any]:
        """Return the images in JSON types."""
        return {"images": [image.as_dict() for image in self.images]}


@dataclass(frozen=True, slots=True)
class PinImages(CatalogChange):
    """Replace the tags of images by digests.

    Attributes:
        options: How to pin the images.
        digest: Returns the digest of an image in its registry; it is called once per image, concurrently.
        progress: Reports the number of images.
    """

    options: PinOptions
    digest: Callable[[Reference], str]
    progress: Progress = field(default=NO_PROGRESS)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Pin the images of a file-based catalog.

        Raises:
            UnresolvedImages: An image has no digest.
        """
        files = [_read(bundle) for bundle in blobs.bundles]
        uses = [use for file in files for use in file.uses()]
        images = resolve_images(uses, self.options, self.digest, self.progress)
        bundles = tuple(_pin(bundle, file, images) for bundle, file in zip(blobs.bundles, files, strict=True))
        return EditResult(
            replace(blobs, bundles=bundles),
            warnings=tuple(warning for file in files for warning in file.warnings),
            report=PinReport(changed_images(uses, images)),
        )


def _read(bundle: BundleBlob) -> PinnableFile:
    return PinnableFile.read(bundle.location.file, to_json([bundle]), find_catalog_images, line=bundle.location.line)


def _pin(bundle: BundleBlob, file: PinnableFile, images: Mapping[str, str]) -> BundleBlob:
    content = file.replace(images)
    if content == file.raw:
        return bundle
    return replace(parse_blobs(content, file.name).bundles[0], location=bundle.location)
