"""The bundle images of templates: resolve their tags with a lock file."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opmkit.bundle.source import parse_location
from opmkit.core.errors import OpmkitError
from opmkit.core.files import disk_errors, read_limited, resolve_named, write_trees
from opmkit.core.hints import Hint
from opmkit.core.locks import locked_directory
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map
from opmkit.imagetools.errors import InvalidReference, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry.trust_policy import TrustPolicy
from opmkit.imagetools.spec.descriptor import is_digest
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.from_bundle import with_image
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.image.source import SourceKind
from opmkit.index.render import RenderOptions, read_cached_bundle, render_settled
from opmkit.index.templates.document import TemplateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.core.cache import ResultCache
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.image.source import GetRegistryTool


MAX_UNAVAILABLE = 8
"""Bundles that a registry fails to return before the others are not requested."""


class LockMode(StrEnum):
    """The use of a lock file."""

    USE = "use"
    """Resolve the tags that it lacks."""
    UPDATE = "update"
    """Resolve all tags again."""
    FROZEN = "frozen"
    """Fail for tags that it lacks."""


class ImageOptions(Struct, frozen=True):
    """Options of reading images.

    Attributes:
        mode: The use of the lock file.
        update: References to resolve again, even if they are locked.
        offline: Whether registries must not be accessed.
        pin: Whether catalogs refer to bundle images by digest instead of by tag.
        cache: Rendered bundle images by digest.
        warn: Called with each warning about a bundle.
        compat: The release of Go opm whose format is used.
        policy: The policy for signatures, which cached bundles must satisfy as well; by default that of the machine.
    """

    mode: LockMode = LockMode.USE
    update: frozenset[str] = frozenset()
    offline: bool = False
    pin: bool = False
    cache: ResultCache | None = None
    warn: Callable[[str], None] = lambda _: None
    compat: CatalogCompat = CatalogCompat.NEWEST
    policy: TrustPolicy | None = None


class ResolvedImages(Struct):
    """The digests of tags, by the references of the images, and the errors of those that can't be resolved."""

    locked: dict[str, LockedImage] = {}
    errors: dict[str, OpmkitError] = {}


def resolve_images(
    tool: GetRegistryTool,
    images: Collection[str],
    lock: ImageLock,
    options: ImageOptions,
    progress: Progress = NO_PROGRESS,
) -> ResolvedImages:
    """Return the digests of image tags from a lock file, or else from their registries; other images are not locked."""
    result = ResolvedImages()
    pending: dict[str, Reference] = {}
    for image in images:
        try:
            reference = _tagged(image)
        except OpmkitError as error:
            result.errors[image] = error
            continue
        if reference is None:
            continue
        is_outdated = options.mode is LockMode.UPDATE or image in options.update
        locked = None if is_outdated else lock.images.get(image)
        if locked is not None:
            result.locked[image] = locked
        elif options.mode is LockMode.FROZEN:
            hint = Hint("run the command without {}", IndexSetting.FROZEN)
            result.errors[image] = CatalogError(f"{image}: not in the lock file", hint=hint)
        elif options.offline:
            result.errors[image] = _offline(image)
        else:
            pending[image] = reference
    if pending:
        _resolve_pending(tool(), pending, result, progress)
    return result


def _resolve_pending(
    tool: RegistryTool, pending: Mapping[str, Reference], result: ResolvedImages, progress: Progress
) -> None:
    resolver = _Resolver(tool)
    progress.begin("Resolving", len(pending), unit="images")
    try:
        for (image, _), future in ordered_parallel_map(resolver.resolve, pending.items()):
            try:
                result.locked[image] = future.result()
            except OpmkitError as error:
                result.errors[image] = error
            progress.advance(1)
    finally:
        progress.end()


class _Resolver(Struct):
    """A thread-safe resolver of tags, which does not repeat requests to an unavailable registry."""

    tool: RegistryTool
    _unavailable: dict[str, RegistryUnavailable] = {}
    _lock: Lock = field(default_factory=Lock)

    def resolve(self, item: tuple[str, Reference]) -> LockedImage:
        image, reference = item
        with self._lock:
            known = self._unavailable.get(reference.registry)
        if known is not None:
            raise RegistryUnavailable(
                f"{image}: not resolved, because {reference.registry} is unavailable", hint=known.hint
            )
        try:
            descriptor = self.tool.resolve(reference)
        except RegistryUnavailable as error:
            with self._lock:
                self._unavailable[reference.registry] = error
            raise
        return LockedImage(descriptor.digest, descriptor.media_type)


def _tagged(image: str) -> Reference | None:
    """Return the reference of an image whose digest is unknown, None if it is known."""
    location = parse_location(image)
    if not isinstance(location, Reference):  # templates may be untrusted, and must not make the command read files
        raise CatalogError(f"{image}: unsupported: it is not an image in a registry", hint="Refer to a pushed image.")
    return None if location.digest else location


class BundleReader:
    """Renders bundles by digest, from the cache if it contains them; see `BundleRenderer`."""

    def __init__(self, tool: GetRegistryTool, resolved: ResolvedImages, options: ImageOptions) -> None:
        """Create a reader of images that have been resolved."""
        self._tool = _no_tool if options.offline else tool
        self._policy = options.policy or TrustPolicy()
        self._pin = options.pin
        self._locked = resolved.locked
        self._uncached: dict[str, BundleBlob] = {}
        self._current: dict[str, BundleBlob] = {}
        self._warnings: set[str] = set()
        self._warn = options.warn
        self._options = RenderOptions(
            kinds=frozenset({SourceKind.BUNDLE_IMAGE}),
            cache=options.cache,
            digests={image: locked.digest for image, locked in resolved.locked.items()},
            warn=self._warn_once,
            compat=options.compat,
        )

    def prefetch(self, images: Sequence[str], progress: Progress = NO_PROGRESS) -> dict[str, OpmkitError]:
        """Read the images that are not cached, and return the errors by image."""
        missing = [image for image in images if not self._is_cached(image)]
        pending = dict.fromkeys(missing)
        errors: dict[str, OpmkitError] = {}
        unavailable = 0
        with closing(render_settled(self._tool, missing, self._options, progress=progress)) as results:
            while pending and unavailable < MAX_UNAVAILABLE:
                image, result = next(results)
                del pending[image]
                if isinstance(result, OpmkitError):
                    errors[image] = _offline(image) if isinstance(result, _OfflineError) else result
                    unavailable += isinstance(result, RegistryUnavailable)
                elif not self._is_cached(image):
                    self._uncached[image] = result.bundles[0]
        hint = "run the command again: bundles that were read are cached"
        skipped = {
            image: RegistryUnavailable(f"{image}: not read after {unavailable} failures of registries", hint=hint)
            for image in pending
        }
        return errors | skipped

    def __call__(self, images: Sequence[str], /) -> dict[str, BundleBlob]:
        """Return the bundle of each image, by image."""
        found = {image: blob for image in images if (blob := self._find(image)) is not None}
        missing = [image for image in images if image not in found]
        for image, result in render_settled(self._tool, missing, self._options) if missing else ():
            if isinstance(result, OpmkitError):
                raise _offline(image) if isinstance(result, _OfflineError) else result
            found[image] = self._named(image, result.bundles[0])
        self._current.update(found)
        return {image: found[image] for image in images}

    def forget(self) -> None:
        """Release the bundles of the current template, which its other migration levels share."""
        self._current.clear()

    def _find(self, image: str) -> BundleBlob | None:
        if image in self._current:
            return self._current[image]
        blob = self._uncached.get(image)
        if blob is None and (digest := self._digest(image)):
            blob = read_cached_bundle(self._options, digest, image)
            if blob is not None:
                self._admit(image, digest)
        return None if blob is None else self._named(image, blob)

    def _admit(self, image: str, digest: str) -> None:
        """Check a cached image with the policy for signatures, which may require requests to its registry."""
        reference = Reference.parse(image)
        if not reference.short_name and self._policy.accepts_unsigned(reference):
            return
        try:
            self._tool().admit(reference, digest)
        except _OfflineError:
            raise CatalogError(
                f"{image}: the policy for signatures requires its registry, and registries must not be accessed",
                hint=Hint("run the command without {}", IndexSetting.OFFLINE),
            ) from None

    def _named(self, image: str, blob: BundleBlob) -> BundleBlob:
        """Return the bundle with the image to write to catalogs."""
        if not self._pin or image not in self._locked:
            return blob
        pinned = f"{Reference.parse(image).name}@{self._locked[image].digest}"
        others = tuple(related for related in blob.related_images if related.image != blob.image or related.name)
        return with_image(replace(blob, related_images=others), pinned)

    def _digest(self, image: str) -> str:
        locked = self._locked.get(image)
        return locked.digest if locked else Reference.parse(image).digest or ""

    def _is_cached(self, image: str) -> bool:
        cache, digest = self._options.cache, self._digest(image)
        return bool(digest and cache and cache.contains(digest))

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.add(warning)
            self._warn(warning)


class _OfflineError(OpmkitError):
    """A registry would have to be accessed."""


def _no_tool() -> RegistryTool:
    raise _OfflineError("refusing to access a registry")


def _offline(image: str) -> CatalogError:
    return CatalogError(
        f"{image}: not cached, and registries must not be accessed",
        hint=Hint("run the command once without {}", IndexSetting.OFFLINE),
    )


def distinct(images: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield each image of several lists once."""
    return iter(dict.fromkeys(image for listed in images for image in listed))


VERSION = 1
MAX_LOCK = 64 << 20
"""Bytes of a lock file."""
_HEADER = "# Digests of the images in catalog templates, written by opmkit. Sorted, one line per image.\n"
_HINT = "Correct the line, or delete it to resolve the image again."
_CONFLICT = re.compile(rb"^(?:<{7}|={7}|>{7})(?: |$)", re.MULTILINE)


class LockedImage(Struct, frozen=True):
    """The manifest that a tag named when it was resolved."""

    digest: str
    media_type: str


class ImageLock(Struct, frozen=True):
    """The content of a lock file: images by their references, as templates write them."""

    images: Mapping[str, LockedImage] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, path: Path) -> ImageLock:
        """Read a lock file; one that does not exist is empty.

        Raises:
            InvalidCatalog: The file is invalid; the error lists all findings with their lines.
            DiskError: The file can't be read.
        """
        with disk_errors(path):
            if not path.exists():
                return cls()
            raw = read_limited(path, MAX_LOCK, regular=True)
        conflict = _CONFLICT.search(raw)
        if conflict:
            line = raw.count(b"\n", 0, conflict.start()) + 1
            hint = "Keep the lines of both sides, and one line per image."
            raise InvalidCatalog(f"{path}:{line}: unresolved merge conflict", hint=hint)
        return cls(MappingProxyType(_parse(TemplateFile.open(path))))

    def encode(self) -> bytes:
        """Return the content of the file."""
        lines = [
            f'  {json.dumps(image)}: {{"digest": {json.dumps(locked.digest)}, '
            f'"mediaType": {json.dumps(locked.media_type)}}}\n'
            for image, locked in sorted(self.images.items())
        ]
        images = "".join(["images:\n", *lines] if lines else ["images: {}\n"])
        return f"{_HEADER}version: {VERSION}\n{images}".encode()


def update_lock(
    path: Path, changes: Mapping[str, LockedImage], others: Mapping[Path, Mapping[str, bytes | Path]] | None = None
) -> bool:
    """Change images in a lock file, and return whether the file changed; others, and those of other writers, remain.

    Other files are written together with it, see `write_trees`.

    Raises:
        InvalidCatalog: The file has become invalid.
        DiskError: The file can't be written.
    """
    with disk_errors(path):
        path = resolve_named(path)  # a link to a lock file remains
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked_directory(path.parent):
            before = ImageLock.read(path)
            after = ImageLock({**before.images, **changes})
            trees = {root: dict(files) for root, files in (others or {}).items()}
            if after != before:
                trees.setdefault(path.parent, {})[path.name] = after.encode()
            write_trees(trees)
            return after != before


def _parse(file: TemplateFile) -> dict[str, LockedImage]:
    if not file.documents:
        return {}
    reader = file.mapping(_HINT)
    file.check_fields(reader, "version", "images")
    if not file.findings and reader.any("version") != VERSION:
        file.report(("version",), f"unsupported version {reader.any('version')!r}", hint="Update opmkit.")
    images = reader.mapping("images")
    parsed = dict(_parse_images(file, images)) if images else {}
    file.raise_findings()
    return parsed


def _parse_images(file: TemplateFile, images: FieldReader) -> Iterator[tuple[str, LockedImage]]:
    for image in images.value:
        path = (*images.path, image)
        entry = images.mapping(image)
        if entry is None:
            if images.value[image] is None:
                file.report(path, f"image {image!r} has no digest", hint=_HINT)
            continue
        digest, media_type = entry.string("digest"), entry.string("mediaType")
        try:
            Reference.parse(image)
        except InvalidReference as error:
            file.report(path, f"invalid image: {error.message}", hint=_HINT)
        if not is_digest(digest):
            file.report(path, f"image {image!r} has the invalid digest {digest!r}", hint=_HINT)
        yield image, LockedImage(digest, media_type)
