"""Container engines as container tools: what docker, podman and buildah have in common."""

from __future__ import annotations

import io
import logging
import tarfile
import threading
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools import layer
from opmkit.imagetools.build_spec import SCRATCH
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.hints import Hint, Operation, Setting
from opmkit.imagetools.layer import DISK_LIMITS, MEMORY_LIMITS, Limits
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.spec import Descriptor, Manifest, media_types, sha256_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.auth import Credentials, Keychain
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.engines.engine import Engine, EngineImage
    from opmkit.imagetools.layer import LayerSource
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.tools import ContainerTool, InspectedImage

_log = logging.getLogger(__name__)


class EngineTool:
    """ContainerTool over an engine: images are in its storage, and layers of a base never leave it.

    A name is pulled when it is first asked for. Where its registry hasn't it, can't be reached or doesn't let us in,
    the image of that name in the engine's storage is used: one just built is there before it is pushed. Images that
    are elsewhere, such as in a layout, are read from there by another tool; the engine builds on none of them.
    """

    def __init__(
        self, engine: Engine, keychain: Keychain, registries: RegistryClient, elsewhere: ContainerTool
    ) -> None:
        """Use these; nothing is asked yet. Where an engine doesn't tell what digest it pushed, ``registries`` do."""
        self.name = engine.name
        self._elsewhere = elsewhere
        self._engine = engine
        self._keychain = keychain
        self._registries = registries
        self._images: dict[str, EngineImage] = {}
        self._lock = threading.Lock()

    @property
    def storage(self) -> str:
        """The storage of the engine."""
        return f"the storage of {self.name}"

    def digest(self, reference: ImageReference) -> str:
        """The digest of the image's configuration."""
        if not isinstance(reference, Reference):
            return self._elsewhere.digest(reference)
        return self._image(reference).digest

    def inspect(self, reference: ImageReference) -> InspectedImage:
        """The image, pulled if that hasn't happened yet."""
        return self._image(reference) if isinstance(reference, Reference) else self._elsewhere.inspect(reference)

    def _image(self, named: Reference) -> EngineImage:
        name = _engine_name(named)
        with self._lock:
            image = self._images.get(name)
        if image is None:
            image = self._fetch(named, name)
            with self._lock:
                self._images[name] = image
        return image

    def read_tree(
        self, source: ImageReference, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """The files at or under the prefixes, by path, in memory."""
        if not isinstance(source, Reference):
            return self._elsewhere.read_tree(source, prefixes, limits)
        image = self._image(source)
        tree: dict[str, bytes] = {}
        with self._engine.opened(image) as open_archive:
            for prefix in prefixes:
                path = PurePosixPath("/", prefix)
                if (archive := open_archive(str(path))) is not None:
                    found = layer.read_tree([_layer(image, archive)], [path.name], limits or MEMORY_LIMITS)
                    tree |= {str(path.parent / name)[1:]: content for name, content in found.items()}
        return tree

    def extract(
        self, source: ImageReference, destination: Path, prefixes: Sequence[str] = ("",), limits: Limits | None = None
    ) -> None:
        """Write the files of the image below ``destination``, without those that the engine adds to them."""
        if not isinstance(source, Reference):
            self._elsewhere.extract(source, destination, prefixes, limits)
            return
        image = self._image(source)
        with self._engine.opened(image) as open_archive:
            for prefix in prefixes:
                path = PurePosixPath("/", prefix)
                archive = open_archive(str(path))
                if archive is not None:
                    layers = [_layer(image, archive), _removal(self._injected_below(path.parent))]
                    place = destination / str(path.parent)[1:]
                    layer.extract_tree(layers, place, (path.name,), limits or DISK_LIMITS)
        for parent in {PurePosixPath(path).parent for path in self._engine.injected} - {PurePosixPath()}:
            with suppress(OSError):  # there is something else in it
                (destination / parent).rmdir()

    def _injected_below(self, directory: PurePosixPath) -> list[str]:
        """What the engine adds to images, relative to the directory."""
        injected = (PurePosixPath("/", path) for path in self._engine.injected)
        return [str(path.relative_to(directory)) for path in injected if path.is_relative_to(directory)]

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file out; whether it is there."""
        if not isinstance(source, Reference):
            return self._elsewhere.copy_file(source, path, destination, limits)
        image = self._image(source)
        wanted = PurePosixPath("/", path)
        with self._engine.opened(image) as open_archive:
            archive = open_archive(str(wanted))
            if archive is None:
                return False
            found = layer.find_file([_layer(image, archive)], wanted.name, destination, limits or DISK_LIMITS)
        return found is not None

    def build(
        self,
        spec: BuildSpec,
        base: ImageReference | None,
        references: Sequence[ImageReference],
        *,
        push: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> str:
        """Build an image into the engine's storage, and push it from there; the digest that it has in its registry.

        Without ``push`` the digest is empty: an image gets the digest that others know it by when it is pushed.
        """
        targets = [self._target(reference) for reference in references]
        progress.begin(f"Building with {self.name}", None)
        try:
            from_name = SCRATCH if base is None else self._base(base)
            with ScratchDirectory("opm-build-") as scratch:
                context = spec.write_context(from_name, Path(scratch))
                self._engine.build(context, spec, [str(target) for target in targets])
            with self._lock:
                self._images.clear()  # the new image may have the name of an old one
        finally:
            progress.end()
        return self.push(targets, progress=progress) if push else ""

    def push(self, references: Sequence[ImageReference], *, progress: Progress = NO_PROGRESS) -> str:
        """Send an image from the engine's storage to the registries of its names; the digest that it has there."""
        targets = [self._target(reference) for reference in references]
        progress.begin(f"Pushing with {self.name}", None)
        try:
            digests = [self._push(target) for target in targets]
        finally:
            progress.end()
        return digests[0]

    def published(self, reference: ImageReference) -> str:
        """The digest of what the reference names in its registry now, "" for nothing."""
        target = self._target(reference)
        try:
            return self._registries.target(target).resolve(target.identifier).digest
        except NotFound:
            return ""

    def _push(self, target: Reference) -> str:
        name = str(target)
        digest = self._engine.push(name, self._credentials(target))
        if digest:
            return digest
        try:
            manifest = self._registries.target(target).get_manifest(target.identifier)
        except ImageToolsError as error:
            _log.warning("%s; so the digest of what was pushed isn't known", error.message)
            return ""
        pushed = self._engine.find(name)
        is_it = isinstance(manifest, Manifest) and pushed is not None and manifest.config.digest == pushed.digest
        return manifest.digest if is_it else ""

    def _base(self, reference: ImageReference) -> str:
        named = self._named(reference)
        self._image(named)
        return _engine_name(named)

    def _fetch(self, reference: Reference, name: str) -> EngineImage:
        if reference.digest and (present := self._engine.find(name)):
            return present
        try:
            self._engine.pull(name, self._credentials(reference))
        except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
            present = self._engine.find(name)
            if present is None:
                raise
            _log.warning("%s; the image of that name in the storage of %s is used", error.message, self.name)
            return present
        pulled = self._engine.find(name)
        if pulled is None:
            raise NotFound(f"{reference}: {self.name} pulled it, but has no such image", hint="try again")
        return pulled

    def _credentials(self, reference: Reference) -> Credentials | None:
        return self._keychain.find(reference.registry, reference.repository)

    def _named(self, reference: ImageReference) -> Reference:
        if not isinstance(reference, Reference):
            raise ImageToolsError(
                f"{reference}: {self.name} builds on, and gives, names in registries only",
                hint=Hint.any_of(
                    Hint("use {}", Setting.CONTAINER_TOOL.with_value("none")),
                    Hint("copy it to a registry with {}", Operation.COPY_IMAGE),
                ),
            )
        return reference

    def _target(self, reference: ImageReference) -> Reference:
        named = self._named(reference)
        if named.digest:
            raise ImageToolsError(
                f"{reference}: a new image can't be given a digest", hint="write a tag in place of the digest"
            )
        return named.with_default_tag()


def _engine_name(reference: Reference) -> str:
    """A name that every engine takes: not all take a tag and a digest at once."""
    return str(reference.with_digest(reference.digest) if reference.digest else reference.with_default_tag())


def _layer(image: EngineImage, archive: BinaryIO) -> LayerSource:
    """What an engine gives of an image's files, as a layer; its errors name the image."""
    return Descriptor(media_types.OCI_LAYER, image.digest, 0), lambda: archive


def _removal(paths: Sequence[str]) -> LayerSource:
    """A layer that takes these paths away from what is under it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as whiteouts:
        for path in map(PurePosixPath, paths):
            whiteouts.addfile(tarfile.TarInfo(str(path.with_name(f".wh.{path.name}"))))
    content = archive.getvalue()
    return Descriptor(media_types.OCI_LAYER, sha256_digest(content), len(content)), lambda: io.BytesIO(content)
