"""The container tool that requires no engine: registries over HTTP, the embedded store, layouts and archives."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from msgspec import Struct

from opmkit.core import interrupts
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.private_files import UntrustedFile, warn_untrusted
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools import layer
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound, RegistryUnavailable, prefix_errors
from opmkit.imagetools.image import Image, load_image, load_image_or_index, load_manifest_image, load_platforms
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import DISK_LIMITS, MEMORY_LIMITS, Limits
from opmkit.imagetools.platform_equality import require_equal_content
from opmkit.imagetools.reference import (
    DockerArchiveReference,
    LayoutReference,
    OciArchiveReference,
    Reference,
    StoreReference,
    pin_reference,
)
from opmkit.imagetools.registry import RegistryRepository
from opmkit.imagetools.spec import Manifest
from opmkit.imagetools.store import LayoutRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.layer import FoundFile, LayerSource
    from opmkit.imagetools.platform_equality import ComparedContent
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import Descriptor, Platform
    from opmkit.imagetools.store import ImageStore

T = TypeVar("T")
_MAX_INSPECTED = 32
_log = logging.getLogger(__name__)


class RemovableLayers(Struct, frozen=True):
    """The topmost layers of an image that contain nothing but certain directories.

    ``positions`` count layers from the bottom, which is 0. ``directories`` are those that the layers have files in.
    """

    positions: frozenset[int]
    directories: frozenset[str]


class RegistryTool:
    """The container tool ``none``.

    Names are resolved in their registries. If a registry does not have an image, is unreachable or denies access (as
    many do for names that do not exist), the image saved with that name in the embedded store is used. An image can
    thus be a base image before it is pushed. Layers read from registries are cached in the store, if it is writable.
    Thread-safe.
    """

    name = "none"

    def __init__(
        self,
        client: RegistryClient,
        store: ImageStore,
        *,
        image_format: ImageFormat = ImageFormat.OCI,
        workers: int = 4,
    ) -> None:
        """Create the tool; it builds images in ``image_format`` and copies ``workers`` blobs at a time."""
        self.image_format = image_format
        self._client = client
        self._store = store
        self._workers = workers
        self._inspected: dict[tuple[Reference, Platform | None], Image] = {}
        self._lock = threading.Lock()

    @property
    def storage(self) -> str:
        """A description of the embedded store, with its path."""
        return f"the embedded store {self._store.layout.path}"

    def resolve(self, reference: ImageReference) -> Descriptor:
        """Return the descriptor of the manifest or index that the reference currently names, to be recorded.

        It is that of the content, which a registry could contradict in the header that `digest` returns.
        """
        return self._read(reference, lambda repository, identifier: repository.get_manifest(identifier).descriptor)

    def digest(self, reference: ImageReference) -> str:
        """Return the digest of the manifest or index that the reference currently names, to read it by."""
        return self._read(reference, lambda repository, identifier: repository.resolve(identifier)).digest

    def pin(self, reference: ImageReference, digest: str) -> ImageReference:
        """Return the reference with the digest instead of a tag, see `pin_reference`."""
        return pin_reference(reference, digest)

    def admit(self, reference: Reference, digest: str) -> None:
        """Check the image of a name by its digest, for content that is cached by digest.

        Raises:
            VerificationFailed: The image does not satisfy the policy for signatures.
            ImageToolsError: Its signatures cannot be read.
        """
        with self._reading(reference):
            self._client.admit(reference, self._client.repository(reference), digest)

    def accepts_unsigned(self, reference: Reference) -> bool:
        """Return whether the policy for signatures accepts an image as it is."""
        return self._client.accepts_unsigned(reference)

    def load_digest(self, reference: Reference) -> str:
        """Return what `digest` returns, and read the image with the same request for its manifest, for `inspect`.

        Unlike `digest`, registries may count this as a pull.
        """
        try:
            digest, image = self._read(reference, _load_with_digest)
        except (AuthenticationFailed, RegistryUnavailable):
            raise
        except (ImageToolsError, LimitExceeded):  # `digest` and `inspect` raise it, with the digest if there is one
            return self.digest(reference)
        self._remember((reference.with_digest(digest), None), image)
        return digest

    def registry_digest(self, reference: Reference) -> str:
        """Return the digest of the image in its registry or a mirror, ignoring the embedded store; see `resolve`."""
        with self._reading(reference):
            repository, identifier = self._client.open_image(reference)
            return repository.get_manifest(identifier).digest

    def inspect(self, reference: ImageReference, platform: Platform | None = None) -> Image:
        """Return the manifest and configuration of an image; results for references with a digest are cached."""
        if not (isinstance(reference, Reference) and reference.digest):
            return self._read(reference, partial(load_image, platform=platform))
        key = (reference, platform)
        image = self._inspected.get(key)
        if image is None:
            image = self._read(reference, partial(load_image, platform=platform))
            self._remember(key, image)
        return image

    def _remember(self, key: tuple[Reference, Platform | None], image: Image) -> None:
        with self._lock:
            self._inspected[key] = image
            if len(self._inspected) > _MAX_INSPECTED:
                del self._inspected[next(iter(self._inspected))]

    def require_equal_platforms(self, reference: ImageReference, content: ComparedContent) -> ImageReference:
        """Return the reference with the digest of the image to read, see `ContainerTool`; inspecting it is free."""
        known = self._inspected.get((reference, None)) if isinstance(reference, Reference) else None
        if known and isinstance(reference, Reference) and known.digest == reference.digest:
            return reference  # no index, whose digest would be another one
        with self._reading(reference):
            image, platforms = self._read(reference, _load_with_platforms)
            require_equal_content(platforms, content, self.read_tree)
        if not isinstance(reference, Reference):
            return pin_reference(reference, image.digest)
        pinned = replace(reference, digest=image.digest)  # with the tag, for messages
        self._remember((pinned, None), image)
        return pinned

    def load(self, reference: ImageReference) -> Image | ImageIndex:
        """Return the image or image index, with all platforms."""
        return self._read(reference, load_image_or_index)

    def read_tree(
        self, source: ImageReference | Image, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """Return the contents of the files at or below the prefixes, by path."""
        with self._reading(source):
            return layer.read_tree(reversed(self._layers(source)), prefixes, limits or MEMORY_LIMITS)

    def extract(
        self,
        source: ImageReference | Image,
        destination: Path,
        prefixes: Sequence[str] = ("",),
        limits: Limits | None = None,
    ) -> None:
        """Extract the files at or below the prefixes into ``destination``."""
        with self._reading(source):
            layer.extract_tree(self._layers(source), destination, prefixes, limits or DISK_LIMITS)

    def extract_directory(
        self,
        source: ImageReference | Image,
        path: str,
        destination: Path,
        related: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> RemovableLayers:
        """Extract the directory at ``path`` into ``destination``, and find the layers that could be removed with it.

        These are the topmost layers that contain nothing but this directory and the ``related`` ones. Layers below one
        that hides the directory, such as `write_layer` writes with ``opaque_directories``, are not read.
        """
        limits = limits or DISK_LIMITS
        exclusive: dict[int, frozenset[str]] = {}
        with self._reading(source):
            layers = self._layers(source)
            lowest = 0
            for position in reversed(range(len(layers))):
                scan = layer.scan_layer(layers[position], (path, *related), limits)
                if scan.exclusive:
                    exclusive[position] = scan.directories
                if scan.hides_lower:
                    lowest = position
                if scan.hides_lower or not scan.exclusive:
                    break
            layer.extract_tree(layers[lowest:], destination, (path,), limits)
        return RemovableLayers(frozenset(exclusive), frozenset().union(*exclusive.values()))

    def find_file(self, image: Image, path: str, destination: Path, limits: Limits | None = None) -> FoundFile | None:
        """Copy one file to ``destination``, and return the position of its layer; lower layers are not read."""
        layers = self._layers(image)
        with self._reading(image):
            found = layer.find_file(layers[::-1], path, destination, limits or DISK_LIMITS)
        return found and layer.FoundFile(len(layers) - 1 - found.layer_index, found.only_file)

    def has_program(self, image: Image, limits: Limits) -> bool | None:
        """Return whether an image contains the program that it runs, None if finding that exceeds the limits.

        Layers that are not cached are read from their registry, as little of them as possible, and are not cached.
        """
        with self._reading(image):
            return layer.find_program(image.config, self._streamed_layers(image), limits)

    def contains_name(self, image: Image, name: str, limits: Limits | None = None) -> bool:
        """Return whether an image has a file, directory or link of this name in any directory.

        All layers are read; those that are not cached are read from their registry, and are not cached.
        """
        with self._reading(image):
            return layer.contains_name(self._streamed_layers(image), name, limits or DISK_LIMITS)

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file to ``destination``; return whether it exists in the image."""
        with self._reading(source):
            return self.find_file(self.inspect(source), path, destination, limits) is not None

    def build(
        self,
        spec: BuildSpec,
        base: ImageReference | None,
        references: Sequence[ImageReference],
        *,
        push: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> str:
        """Build an image for every platform of ``base``, whose layers are not copied unless they must be pushed."""
        from opmkit.imagetools.uncompressed import compress_layers  # slow to import: compression

        base_image = Image.scratch() if base is None else self.load(base)
        with ScratchDirectory("opm-build-") as scratch:
            base_image = compress_layers(base_image, Path(scratch)).in_format(self.image_format.manifest_type)
            image = spec.build_on(base_image, Path(scratch))
            store = self.push if push else self.save
            digests = [store(image, reference, progress=progress).digest for reference in references]
        return digests[0]

    def save(
        self, image: Image | ImageIndex, reference: ImageReference, *, progress: Progress = NO_PROGRESS
    ) -> Descriptor:
        """Save an image in the embedded store, or in the layout, archive or engine that the reference names."""
        if not isinstance(reference, Reference):
            return self.push(image, reference, progress=progress)
        return self._copy(image, self._store.repository(reference.name), reference, progress)

    def push(
        self,
        image: Image | ImageIndex,
        reference: ImageReference,
        *,
        replacing: str | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Descriptor:
        """Push an image to the registry, or write it to the other place, that the reference names."""
        if not isinstance(reference, Reference):
            from opmkit.imagetools.transports import put_local  # slow to import: archives

            return put_local(
                image, reference, self._store, replacing=replacing, workers=self._workers, progress=progress
            )
        return self._copy(image, self.destination(reference), reference, progress, replacing)

    def tags(self, reference: Reference) -> Iterator[str]:
        """Yield the tags of a repository, in the order of its registry; raise NotFound."""
        return self._client.repository(reference).tags()

    def destination(self, reference: Reference | LayoutReference) -> Repository:
        """Return the repository that push writes to."""
        if isinstance(reference, LayoutReference):
            return LayoutRepository(reference.path)
        return self._client.target(reference)

    def _copy(
        self,
        image: Image | ImageIndex,
        target: Repository,
        reference: Reference,
        progress: Progress,
        replacing: str | None = None,
    ) -> Descriptor:
        from opmkit.imagetools.copy import copy_image  # slow to import: compression

        tag = reference.tag if reference.digest else reference.identifier or None
        descriptor = copy_image(image, target, tag, replacing=replacing, workers=self._workers, progress=progress)
        if tag:
            interrupts.record_update(str(reference))
        return descriptor

    def _read(self, reference: ImageReference, read: Callable[[ImageSource, str], T]) -> T:
        """Call ``read`` with the place that the reference names, or with the store if that fails for a registry."""
        with self._reading(reference):
            return self._read_with_fallback(reference, read)

    def _read_with_fallback(self, reference: ImageReference, read: Callable[[ImageSource, str], T]) -> T:
        if not isinstance(reference, Reference):
            from opmkit.imagetools.transports import open_local  # slow to import: archives

            source, identifier = open_local(reference, self._store)
            return read(source, self._client.admit(reference, source, identifier))
        try:
            return read(*self._client.open_image(reference))
        except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
            saved = self._saved_images(reference)
            if saved is None:
                raise
            _log.warning("%s; using the image with this name in the embedded store", error.message)
        return read(saved, self._client.admit(reference, saved, reference.identifier))

    def _saved_images(self, reference: Reference) -> Repository | None:
        """Return the repository in the store, None if the image was not saved there."""
        repository = self._store.repository(reference.name)
        try:
            repository.resolve(reference.identifier)
        except UntrustedFile as error:
            warn_untrusted(self._store.layout.path, error)
            return None
        except (ImageToolsError, LimitExceeded, DiskError):
            return None
        return repository

    @contextmanager
    def _reading(self, source: ImageReference | Image) -> Iterator[None]:
        with _prefix_errors(source), self._client.transfers.reading(_name(source)):
            yield

    def _layers(self, source: ImageReference | Image) -> list[LayerSource]:
        """Return the layers of an image, bottom first."""
        image = source if isinstance(source, Image) else self.inspect(source)
        return [(descriptor, partial(self._open_layer, image, descriptor)) for descriptor in image.manifest.layers]

    def _open_layer(self, image: Image, descriptor: Descriptor) -> BinaryIO:
        if descriptor.digest in image.local_layers or not isinstance(image.source, RegistryRepository):
            return image.open_blob(descriptor)
        try:
            path = self._store.find_blob(descriptor)
            if path is None:
                self._client.transfers.expect(descriptor.size)
                path = self._store.ingest(descriptor, image.open_blob(descriptor))
            return path.open("rb")
        except UntrustedFile as error:
            warn_untrusted(self._store.layout.path, error)
            return image.open_blob(descriptor)
        except DiskError as error:
            _log.warning("%s; reading a layer without caching it", error.message)
            return image.open_blob(descriptor)

    def _streamed_layers(self, image: Image) -> list[LayerSource]:
        return [(descriptor, partial(self._stream_layer, image, descriptor)) for descriptor in image.manifest.layers]

    def _stream_layer(self, image: Image, descriptor: Descriptor) -> BinaryIO:
        try:
            path = self._store.find_blob(descriptor) if isinstance(image.source, RegistryRepository) else None
        except UntrustedFile as error:
            warn_untrusted(self._store.layout.path, error)
            path = None
        return path.open("rb") if path else image.open_blob(descriptor)


def _load_with_platforms(repository: ImageSource, identifier: str) -> tuple[Image, dict[str, Image]]:
    """Return the image that an identifier names, and the images for all platforms."""
    manifest = repository.get_manifest(identifier)
    platforms = load_platforms(repository, manifest)
    selected = manifest.digest if isinstance(manifest, Manifest) else manifest.select().digest
    return next(image for image in platforms.values() if image.digest == selected), platforms


def _load_with_digest(repository: ImageSource, identifier: str) -> tuple[str, Image]:
    """Return the digest of the manifest or index that an identifier names, and the image."""
    manifest = repository.get_manifest(identifier)
    return manifest.digest, load_manifest_image(repository, manifest)


def _prefix_errors(source: ImageReference | Image) -> AbstractContextManager[None]:
    """Prefix errors with the name of the image, unless they contain its location."""
    if isinstance(source, Image):
        return nullcontext()
    match source:
        case LayoutReference() | OciArchiveReference() | DockerArchiveReference():
            return prefix_errors(str(source), str(source.path))
        case StoreReference():
            return prefix_errors(str(source), source.reference.name)
        case _:
            return prefix_errors(str(source), source.name)


def _name(source: ImageReference | Image) -> str:
    """Return the name of an image for progress."""
    if not isinstance(source, Image):
        return str(source)
    repository = f"{source.source.name}@" if isinstance(source.source, RegistryRepository) else ""
    return f"{repository}{source.manifest.digest}"
