"""Digests of images, asked from their registries."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from opmkit.author.pin.related_images_mode import RelatedImagesMode
from opmkit.author.pin.replacements import Replacements
from opmkit.bundle.errors import BundleError
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.errors import ImageToolsError, InvalidReference
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from opmkit.author.pin.pinnable_file import LocatedUse

_EXCLUDE = Hint("leave an image as it is with {}", BundleSetting.EXCLUDE)


class UnresolvedImages(BundleError):
    """Images without a digest: they are invalid, do not exist, or their registry cannot be asked."""


@dataclass(frozen=True, slots=True)
class PinOptions:
    """Options for the pinning of images.

    Attributes:
        replacements: Replacements of images and registries. The digest of an image is asked from the registry that the
            image has before its registry is replaced.
        exclude: Glob patterns of images to leave as they are.
        verify: Whether images that have a digest must exist.
        related_images: What to do with ``spec.relatedImages`` of a bundle.
    """

    replacements: Replacements = field(default_factory=Replacements)
    exclude: Sequence[str] = ()
    verify: bool = False
    related_images: RelatedImagesMode = RelatedImagesMode.COMPLETE

    @classmethod
    def parse(
        cls,
        registries: Sequence[str] = (),
        file: Path | None = None,
        *,
        exclude: Sequence[str] = (),
        verify: bool = False,
        related_images: str = RelatedImagesMode.COMPLETE,
    ) -> PinOptions:
        """Return options with replacements written as ``FROM=TO``, and those in a file, see `Replacements.parse`.

        Args:
            registries: Replacements of registries, or of namespaces and repositories in them.
            file: YAML or JSON file that maps images, repositories and registries to their replacements.
            exclude: Glob patterns of images to leave as they are.
            verify: Whether images that have a digest must exist.
            related_images: ``complete``, ``create`` or ``keep``, see `RelatedImagesMode`.

        Raises:
            BundleError: A replacement is invalid.
            DiskError: The file cannot be read.
        """
        return cls(Replacements.parse(registries, file), tuple(exclude), verify, RelatedImagesMode(related_images))

    def is_excluded(self, image: str) -> bool:
        """Return whether an image is left as it is."""
        return any(fnmatchcase(image, pattern) for pattern in self.exclude)


@dataclass(frozen=True, slots=True)
class _Target:
    """The image to ask for, and the text around its digest in the result."""

    reference: Reference
    name: str
    suffix: str

    def pin(self, digest: str) -> str:
        return f"{self.name}{self.suffix or f'@{digest}'}"


def resolve_images(
    uses: Iterable[LocatedUse],
    options: PinOptions,
    digest: Callable[[Reference], str],
    progress: Progress = NO_PROGRESS,
) -> dict[str, str]:
    """Return the pinned name of each image, which is the image itself if nothing is to replace.

    Args:
        uses: The places that name images.
        options: How to pin them.
        digest: Returns the digest of an image in its registry. It is called once per image, concurrently.
        progress: Reports the number of images.

    Raises:
        UnresolvedImages: For images without a digest; the details list each with its file and line.
    """
    places: dict[str, LocatedUse] = {}
    for use in uses:
        places.setdefault(use.image, use)
    failures: dict[str, OpmkitError] = {}
    targets: dict[str, _Target] = {}
    pinned: dict[str, str] = {}
    for image in places:
        try:
            target = None if options.is_excluded(image) else _target(image, options.replacements)
        except (InvalidReference, BundleError, DocumentError) as error:
            failures[image] = error
            continue
        if target is None:
            pinned[image] = image
        elif target.suffix and not options.verify:
            pinned[image] = target.pin("")
        else:
            targets[image] = target
    digests = _ask(targets, digest, progress)
    for image, target in targets.items():
        found = digests[str(target.reference)]
        if isinstance(found, OpmkitError):
            failures[image] = found
        else:
            pinned[image] = target.pin(found)
    if failures:
        raise _unresolved(failures, places)
    return pinned


def _target(image: str, replacements: Replacements) -> _Target:
    reference = Reference.parse(image)
    replacement = replacements.replace_image(reference)
    text = replacement or image
    # Clusters do not know the short names that this machine is configured for.
    reference = Reference.parse(str(Reference.parse(text).with_default_tag()))
    written = _repository(text)
    name = written if replacement else replacements.replace_name(written, reference)
    return _Target(reference, name, text[len(written) :] if reference.digest else "")


def _repository(text: str) -> str:
    """Return a reference without its tag and digest, as it is written."""
    name = text.partition("@")[0]
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}{last.partition(':')[0]}"


def _ask(
    targets: Mapping[str, _Target], digest: Callable[[Reference], str], progress: Progress
) -> dict[str, str | OpmkitError]:
    """Return the digest of each reference, or the error of its registry."""
    references = {str(target.reference): target.reference for target in targets.values()}
    found: dict[str, str | OpmkitError] = {}
    if not references:
        return found
    progress.begin("Resolving images", len(references), unit="images")
    try:
        with closing(ordered_parallel_map(digest, references.values())) as results:
            for reference, result in results:
                try:
                    found[str(reference)] = result.result()
                except (ImageToolsError, LimitExceeded, DiskError) as error:
                    found[str(reference)] = error
                progress.advance(1)
    finally:
        progress.end()
    return found


def _unresolved(failures: Mapping[str, OpmkitError], places: Mapping[str, LocatedUse]) -> UnresolvedImages:
    lines = [f"{places[image]}: {places[image].use}: {_message(image, error)}" for image, error in failures.items()]
    first = next(iter(failures.values()))
    hint = Hint.all_of(first.hint, _EXCLUDE)
    if len(lines) == 1:
        return UnresolvedImages(lines[0], hint=hint)
    return UnresolvedImages(f"{len(lines)} images cannot be pinned", details=lines, hint=hint)


def _message(image: str, error: OpmkitError) -> str:
    return error.message if image in error.message else f"{image}: {error.message}"


def find_unpinned(uses: Iterable[LocatedUse], options: PinOptions) -> list[LocatedUse]:
    """Return the places that name an image without a digest, by line, except for images that the options exclude."""
    unpinned = [use for use in uses if not options.is_excluded(use.image) and not _has_digest(use.image)]
    files = {use.file: number for number, use in enumerate(unpinned)}
    return sorted(unpinned, key=lambda use: (files[use.file], use.line))


def _has_digest(image: str) -> bool:
    try:
        return Reference.parse(image).digest is not None
    except InvalidReference:
        return False
