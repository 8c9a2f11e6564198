"""Pin the images of bundles, catalogs and templates, which are read together and written afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.pin.pin import changed_images, pin_files, unlisted_images, use_as_dict
from opmkit.author.pin.pinnable_file import PinnableFile, find_catalog_images
from opmkit.author.pin.resolve import PinOptions, find_unpinned, resolve_images
from opmkit.author.pin.sources import build_with_files, read_pin_source, replace_files
from opmkit.core.environment import source_date_epoch
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.transports import pin_reference
from opmkit.index.change import CatalogChange, EditResult
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import to_json
from opmkit.index.image.build import build_index
from opmkit.index.image.plan import BuiltIndex, IndexPlan
from opmkit.index.image.source import IndexSource, SourceKind
from opmkit.index.templates.edit.write import MAX_ATTEMPTS, files_keep_changing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.author.pin.pin import PinnedImage, PinResult
    from opmkit.author.pin.pinnable_file import LocatedUse
    from opmkit.author.pin.resolve import PinOptions
    from opmkit.core.progress import Progress
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import Blobs, BundleBlob


@dataclass(frozen=True, slots=True)
class PinDestination:
    """The place of pinned bundles and catalogs.

    Attributes:
        directory: Directory to write a copy of the only target to; None to change the targets in place.
        image: Name of the new image, if the only target is an image.
        push: Whether to push the image instead of saving it.
    """

    directory: Path | None = None
    image: str = ""
    push: bool = False


@dataclass(frozen=True, slots=True)
class PinnedTarget:
    """A bundle, catalog or template, what changes in it, and the name and digest of the new image, if any."""

    name: str
    result: PinResult
    reference: str = ""
    pushed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the target in JSON types."""
        return {
            "target": self.name,
            "images": [image.as_dict() for image in self.result.images],
            "relatedImages": [entry.as_dict() for entry in self.result.related_images],
            "files": list(self.result.files),
            "warnings": list(self.result.warnings),
            **({"reference": self.reference} if self.reference else {}),
        }


@dataclass(frozen=True, slots=True)
class UnpinnedUses:
    """The places that name images without a digest, and warnings."""

    uses: tuple[LocatedUse, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the places in JSON types."""
        return {"unpinned": [{"image": use.image, **use_as_dict(use)} for use in self.uses]}


@dataclass(frozen=True, slots=True)
class PinTargets:
    """Bundles, catalogs and templates whose images can be pinned.

    Attributes:
        sources: The targets.
        tool: The registry tool.
    """

    sources: tuple[IndexSource, ...]
    tool: RegistryTool

    @classmethod
    def resolve(cls, targets: Sequence[str], tool: RegistryTool) -> PinTargets:
        """Find the targets.

        Raises:
            CatalogError, ImageToolsError: A target does not exist.
        """
        return cls(tuple(IndexSource.resolve(lambda: tool, target) for target in targets), tool)

    def to_dict(self) -> dict[str, Any]:
        """Return the names of the targets in JSON types."""
        return {"targets": [source.text for source in self.sources]}

    @property
    def is_catalog_image(self) -> bool:
        """Whether the first target is the image of a file-based catalog."""
        return self.sources[0].kind is SourceKind.CATALOG_IMAGE

    def find_unpinned(self, options: PinOptions) -> UnpinnedUses:
        """Return the places that name images without a digest, in the files of all targets.

        Raises:
            BundleError, CatalogError, ImageToolsError: A target is invalid or cannot be read.
        """
        read = [read_pin_source(source).files for source in self.sources]
        files = [file for target in read for file in target]
        unlisted = filter(None, (unlisted_images(target, options.related_images) for target in read))
        warnings = (*(warning for file in files for warning in file.warnings), *unlisted)
        return UnpinnedUses(tuple(find_unpinned((use for file in files for use in file.uses()), options)), warnings)

    def pin(
        self, options: PinOptions, destination: PinDestination | None, progress: Progress = NO_PROGRESS
    ) -> list[PinnedTarget]:
        """Replace the tags of all images by digests, or none if one cannot be resolved.

        Args:
            options: How to pin the images.
            destination: Place of the result; None to only return what would change.
            progress: Receiver of progress reports.

        Raises:
            UnresolvedImages: An image has no digest.
            BundleError, CatalogError, ImageToolsError: A target is invalid, or cannot be read or written.
        """
        for _ in range(MAX_ATTEMPTS):
            read = [read_pin_source(source) for source in self.sources]
            uses = [use for source in read for file in source.files for use in file.uses()]
            images = resolve_images(uses, options, self.tool.registry_digest, progress)
            results = [pin_files(source.files, images, options.related_images) for source in read]
            pinned = [PinnedTarget(each.text, result) for each, result in zip(self.sources, results, strict=True)]
            if destination and destination.image:
                return [self._build(pinned[0], destination, progress)]
            if destination and destination.directory:
                read[0].write_copy(results[0].files, destination.directory)
                return pinned
            changed = [(source, result.files) for source, result in zip(read, results, strict=True)]
            if not destination or replace_files(changed):
                return pinned
        raise files_keep_changing(each.text for each in self.sources)

    def pin_catalog(
        self, options: PinOptions, destination: PinDestination, progress: Progress = NO_PROGRESS
    ) -> BuiltIndex:
        """Pin the images of an index image with a file-based catalog, the only target, as a change of the index.

        Raises:
            UnresolvedImages: An image has no digest.
            CatalogError, ImageToolsError: The index cannot be read or written.
        """
        plan = IndexPlan(tags=(destination.image,), from_index=self.sources[0].text, push=destination.push)
        change = PinImages(options, self.tool.registry_digest)
        return build_index(self.tool, self.tool, plan, change, progress=progress)

    def _build(self, target: PinnedTarget, destination: PinDestination, progress: Progress) -> PinnedTarget:
        """Build the image of a bundle with pinned manifests; return the target with the name of the image."""
        image, reference = self.sources[0].image, parse_image_reference(destination.image)
        if image is None:
            return target
        digest = build_with_files(
            self.tool,
            image,
            target.result.files,
            reference,
            push=destination.push,
            created=source_date_epoch(),
            progress=progress,
        )
        return PinnedTarget(target.name, target.result, pin_reference(reference, digest), destination.push)


class PinReport(Struct, frozen=True):
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
