"""The container tool that needs no engine: registries over HTTP, the embedded store, and images in other places."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from opmkit.imagetools import interrupts, layer
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    ImageToolsError,
    NotFound,
    RegistryUnavailable,
    StoreError,
    prefix_errors,
)
from opmkit.imagetools.image import Image, load_image, load_image_or_index
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import DISK_LIMITS, MEMORY_LIMITS, FoundFile, LayerSource, Limits
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import (
    DockerArchiveReference,
    LayoutReference,
    OciArchiveReference,
    Reference,
    StoreReference,
)
from opmkit.imagetools.registry import RegistryRepository
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store import LayoutRepository
from opmkit.imagetools.transports import open_local, put_local
from opmkit.imagetools.uncompressed import compress_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import Descriptor, Platform
    from opmkit.imagetools.store import ImageStore

T = TypeVar("T")
_INSPECTED = 32
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemovableLayers:
    """Layers at the top of an image, by their positions, and the directories that they have something in."""

    positions: frozenset[int]
    directories: frozenset[str]


class RegistryTool:
    """ContainerTool ``none``.

    A name is looked up in its registry first. Where the registry hasn't it, can't be reached or doesn't let us in (so
    many registries answer for a name that isn't there), an image that was saved under that name in the embedded store
    is used: an image just built is a base for the next one before it is pushed. Layers that are read come into the
    store's cache, if it can be written to, so that they are fetched once; those at hand are read where they are.
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
        """Use these; images are built in the format ``image_format``, and ``workers`` blobs are copied at a time."""
        self.image_format = image_format
        self._client = client
        self._store = store
        self._workers = workers
        self._inspected: dict[tuple[Reference, Platform | None], Image] = {}

    @property
    def storage(self) -> str:
        """The embedded store, with its path."""
        return f"the embedded store {self._store.layout.path}"

    def resolve(self, reference: ImageReference) -> Descriptor:
        """The descriptor of what the reference names now."""
        return self._look_up(reference, lambda repository, identifier: repository.resolve(identifier))

    def digest(self, reference: ImageReference) -> str:
        """The digest of what the reference names now, be it a manifest or an index."""
        return self.resolve(reference).digest

    def inspect(self, reference: ImageReference, platform: Platform | None = None) -> Image:
        """Manifest and configuration of the image; those of a digest are kept for what is asked of it next."""
        if not (isinstance(reference, Reference) and reference.digest):
            return self._look_up(reference, partial(load_image, platform=platform))
        key = (reference, platform)
        image = self._inspected.get(key)
        if image is None:
            image = self._inspected[key] = self._look_up(reference, partial(load_image, platform=platform))
            if len(self._inspected) > _INSPECTED:
                self._inspected.pop(next(iter(self._inspected)), None)
        return image

    def load(self, reference: ImageReference) -> Image | ImageIndex:
        """The image with every platform it has."""
        return self._look_up(reference, load_image_or_index)

    def read_tree(
        self, source: ImageReference | Image, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """The files at or under the prefixes, by path, in memory."""
        with _naming(source):
            return layer.read_tree(reversed(self._layers(source)), prefixes, limits or MEMORY_LIMITS)

    def extract(
        self,
        source: ImageReference | Image,
        destination: Path,
        prefixes: Sequence[str] = ("",),
        limits: Limits | None = None,
    ) -> None:
        """Write the files at or under the prefixes below ``destination``."""
        with _naming(source):
            layer.extract_tree(self._layers(source), destination, prefixes, limits or DISK_LIMITS)

    def extract_directory(
        self,
        source: ImageReference | Image,
        path: str,
        destination: Path,
        related: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> RemovableLayers:
        """Write the directory at ``path`` below ``destination``, and tell which layers at the top have nothing else.

        They may have something in the directories ``related``. No layer is read that is under one that hides it all, as
        those do that `write_layer` writes with the directory hidden.
        """
        limits = limits or DISK_LIMITS
        exclusive: dict[int, frozenset[str]] = {}
        with _naming(source):
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
        """Copy one file out, reading no layer below the one that has it, whose position is the result."""
        layers = self._layers(image)
        found = layer.find_file(layers[::-1], path, destination, limits or DISK_LIMITS)
        return found and FoundFile(len(layers) - 1 - found.layer_index, found.only_file)

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file out; whether there is such a file."""
        with _naming(source):
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
        """Layer the spec on every platform of ``base``, whose layers stay where they are."""
        under = Image.scratch() if base is None else self.load(base)
        with ScratchDirectory("opm-build-") as scratch:
            image = spec.build_on(
                compress_layers(under, Path(scratch)).in_format(self.image_format.manifest_type), Path(scratch)
            )
            put = self.push if push else self.save
            digests = [put(image, reference, progress=progress).digest for reference in references]
        return digests[0]

    def save(
        self, image: Image | ImageIndex, reference: ImageReference, *, progress: Progress = NO_PROGRESS
    ) -> Descriptor:
        """Keep an image in the embedded store, or in the other place on this machine that the reference names."""
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
        """Send an image to the registry, or other place, that the reference names."""
        if not isinstance(reference, Reference):
            return put_local(
                image, reference, self._store, replacing=replacing, workers=self._workers, progress=progress
            )
        return self._copy(image, self.destination(reference), reference, progress, replacing)

    def tags(self, reference: Reference) -> Iterator[str]:
        """The tags of the repository that the reference names, in its registry's order; raises NotFound."""
        return self._client.repository(reference).tags()

    def destination(self, reference: Reference | LayoutReference) -> Repository:
        """The place that push sends to."""
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
        tag = reference.tag if reference.digest else reference.identifier or None
        descriptor = copy_image(image, target, tag, replacing=replacing, workers=self._workers, progress=progress)
        if tag:
            interrupts.record_update(str(reference))
        return descriptor

    def _look_up(self, reference: ImageReference, look: Callable[[ImageSource, str], T]) -> T:
        """What ``look`` gives, from the place that the reference names or, for a registry, else from the store."""
        with _naming(reference):
            return self._look_into(reference, look)

    def _look_into(self, reference: ImageReference, look: Callable[[ImageSource, str], T]) -> T:
        if not isinstance(reference, Reference):
            return look(*open_local(reference, self._store))
        try:
            return look(self._client.repository(reference), reference.identifier)
        except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
            saved = self._saved(reference)
            if saved is None:
                raise
            _log.warning("%s; the image of that name in the local store is used", error.message)
        return look(saved, reference.identifier)

    def _saved(self, reference: Reference) -> Repository | None:
        """Where in the store there is an image of that name."""
        repository = self._store.repository(reference.name)
        try:
            repository.resolve(reference.identifier)
        except ImageToolsError:
            return None
        return repository

    def _layers(self, source: ImageReference | Image) -> list[LayerSource]:
        """The layers of an image, bottom first."""
        image = source if isinstance(source, Image) else self.inspect(source)
        return [(descriptor, partial(self._open, image, descriptor)) for descriptor in image.manifest.layers]

    def _open(self, image: Image, descriptor: Descriptor) -> BinaryIO:
        if descriptor.digest in image.local_layers or not isinstance(image.source, RegistryRepository):
            return image.open_blob(descriptor)
        try:
            path = self._store.find_blob(descriptor) or self._store.ingest(descriptor, image.open_blob(descriptor))
            return path.open("rb")
        except StoreError as error:
            _log.warning("%s; a layer is read without being kept", error.message)
            return image.open_blob(descriptor)


def _naming(source: ImageReference | Image) -> AbstractContextManager[None]:
    """Names the image in the errors inside that don't say where it is."""
    if isinstance(source, Image):
        return nullcontext()
    match source:
        case LayoutReference() | OciArchiveReference() | DockerArchiveReference():
            return prefix_errors(str(source), str(source.path))
        case StoreReference():
            return prefix_errors(str(source), source.reference.name)
        case _:
            return prefix_errors(str(source), source.name)
