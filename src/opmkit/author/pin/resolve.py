"""Digests of images, asked from their registries, after the configured replacements."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.pin.pin import RelatedImagesMode
from opmkit.bundle.errors import BundleError
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map
from opmkit.documents.document_stream import read_settings
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.documents.fields import describe
from opmkit.imagetools.errors import ImageToolsError, InvalidReference
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from opmkit.author.pin.pinnable_file import LocatedUse


_HOST = re.compile(r"(?:localhost|[^/:@]*\.[^/:@]*)(?::[0-9]+)?")
_FORM = "write a mapping from images, repositories or registries to their replacements, such as quay.io: registry.corp"


class Replacements(Struct, frozen=True):
    """Replacements of images, and of registries, namespaces and repositories.

    Attributes:
        images: Replacements by canonical reference. They take precedence.
        prefixes: Replacements by ``HOST[/PATH]``; the longest one that applies counts.
    """

    images: Mapping[str, str] = {}
    prefixes: Mapping[str, str] = {}

    @classmethod
    def parse(cls, registries: Iterable[str] = (), file: Path | None = None) -> Replacements:
        """Parse replacements written as ``FROM=TO``, and a YAML or JSON file with a mapping of the same.

        In the file, a key with a tag or digest is an image. The replacements in ``registries`` take precedence.

        Raises:
            BundleError: A replacement is invalid.
            DiskError: The file cannot be read.
        """
        images: dict[str, str] = {}
        prefixes: dict[str, str] = {}
        for old, new in (_read(file) if file else {}).items():
            reference = _parse(old, str(file))
            if (reference.tag or reference.digest) and not _HOST.fullmatch(old):
                _parse(new, str(file))
                images[str(reference)] = new
            else:
                prefixes[_prefix(old, str(file))] = _prefix(new, str(file))
        for text in registries:
            old, equals, new = text.partition("=")
            if not (equals and old and new):
                raise BundleError(f"invalid replacement {text!r}", hint="write FROM=TO, such as quay.io=registry.corp")
            prefixes[_prefix(old, text)] = _prefix(new, text)
        return cls(images, prefixes)

    def replace_image(self, reference: Reference) -> str | None:
        """Return the replacement of an image, None if it has none."""
        return self.images.get(str(reference.with_default_tag())) or self.images.get(str(reference))

    def replace_name(self, name: str, reference: Reference) -> str:
        """Return the name of a repository, as it is written, with its prefix replaced."""
        canonical = reference.name
        matches = [prefix for prefix in self.prefixes if canonical == prefix or canonical.startswith(f"{prefix}/")]
        if not matches:
            return name
        longest = max(matches, key=len)
        return f"{self.prefixes[longest]}{canonical.removeprefix(longest)}"


def _prefix(text: str, subject: str) -> str:
    """Return a registry, namespace or repository without a trailing slash."""
    prefix = text.rstrip("/")
    name = _parse(f"{prefix}/x/x", subject).name.removesuffix("/x/x")
    return name if _HOST.fullmatch(prefix.partition("/")[0]) else _parse(prefix, subject).name


def _parse(text: str, subject: str) -> Reference:
    try:
        return Reference.parse(text)
    except InvalidReference as error:
        raise BundleError(f"{subject}: {error.message}", hint=error.hint) from error


def _read(path: Path) -> dict[str, str]:
    with disk_errors(path):
        content = read_limited(path)
    try:
        value = read_settings(content)
    except InvalidDocument as error:
        raise BundleError(error.located(str(path)), hint=_FORM) from error
    if not isinstance(value, dict):
        raise BundleError(f"{path}: the document is {describe(value)}, not a mapping", hint=_FORM)
    replacements: dict[str, str] = {}
    for key, new in value.items():
        if not isinstance(new, str):
            raise BundleError(f"{path}: the replacement of {key} is {describe(new)}, not a string", hint=_FORM)
        replacements[key] = new
    return replacements


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


class _Target(Struct, frozen=True):
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
