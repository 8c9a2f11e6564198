"""The container tools docker, podman and buildah."""

from __future__ import annotations

import io
import logging
import os
import tarfile
import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.search_paths import find_program
from opmkit.imagetools import layer
from opmkit.imagetools.credentials import Keychain
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    ImageToolsError,
    InsecureTransport,
    InvalidImage,
    NotFound,
    RegistryUnavailable,
    RegistryUnreachable,
    prefix_errors,
)
from opmkit.imagetools.hint_terms import ImageOperation, ImageSetting
from opmkit.imagetools.image import load_platforms
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import DISK_LIMITS, MEMORY_LIMITS, Limits
from opmkit.imagetools.layer.reader import WHITEOUT_PREFIX
from opmkit.imagetools.platform_equality import require_equal_content
from opmkit.imagetools.reference import SCRATCH, Reference
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.registry_config import RegistrySettings
from opmkit.imagetools.spec import Descriptor, Manifest, media_types, sha256_digest
from opmkit.imagetools.tools.registry import RegistryTool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.engines.engine import Engine, EngineImage
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.layer import LayerSource
    from opmkit.imagetools.platform_equality import ComparedContent
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.tool import ContainerTool, InspectedImage


_log = logging.getLogger(__name__)


class EngineTool:
    """A ContainerTool that pulls, builds and pushes images with an engine, in the storage of that engine.

    The first use of a name pulls the image. If the registry does not have it, is unreachable or denies access, the
    image with that name in the engine's storage is used, such as one that was built but not pushed. Images in other
    places, such as layouts, are read by another tool and cannot be base images.
    """

    def __init__(
        self, engine: Engine, keychain: Keychain, registries: RegistryClient, local_tool: ContainerTool
    ) -> None:
        """Create the tool without connecting to the engine.

        Args:
            engine: The engine.
            keychain: The credentials that are passed to the engine.
            registries: The client that looks up the digest of pushed images if the engine does not report it.
            local_tool: The tool that reads images outside registries, such as in layouts.
        """
        self.name = engine.name
        self._local_tool = local_tool
        self._engine = engine
        self._keychain = keychain
        self._registries = registries
        self._images: dict[str, EngineImage] = {}
        self._not_pulled: set[str] = set()
        self._lock = threading.Lock()

    @property
    def storage(self) -> str:
        """A description of the engine's storage."""
        return f"the storage of {self.name}"

    def digest(self, reference: ImageReference) -> str:
        """Return the digest of the configuration of an image, which is its ID in the engine."""
        if not isinstance(reference, Reference):
            return self._local_tool.digest(reference)
        return self._image(reference).digest

    def pin(self, reference: ImageReference, digest: str) -> ImageReference:
        """Return a name in a registry unchanged: it is pulled once, and ``digest`` is not that of a manifest."""
        return reference if isinstance(reference, Reference) else self._local_tool.pin(reference, digest)

    def inspect(self, reference: ImageReference) -> InspectedImage:
        """Return an image; the first call for a name pulls it."""
        return self._image(reference) if isinstance(reference, Reference) else self._local_tool.inspect(reference)

    def require_equal_platforms(self, reference: ImageReference, content: ComparedContent) -> ImageReference:
        """Return the reference, after comparing the images in the registry: engines store that for one platform.

        An image that is only in the storage of the engine is for one platform, and is not compared. Neither is one
        whose registry only the engine can connect to, such as an engine on another machine: that is logged.

        Raises:
            ImageToolsError: Among others, the engine has another image than the registry.
        """
        if not isinstance(reference, Reference):
            return self._local_tool.require_equal_platforms(reference, content)
        image = self._image(reference)
        if _engine_name(reference) in self._not_pulled:
            return reference
        repository = self._registries.repository(reference)
        with prefix_errors(str(reference), reference.name):
            try:
                manifest = repository.get_manifest(reference.identifier)
            except (RegistryUnreachable, InsecureTransport) as error:  # docker needs no flag for loopback
                _log.warning("%s: other platforms are not compared: %s", reference, error.message)
                return reference
            platforms = load_platforms(repository, manifest)
            require_equal_content(platforms, content, _read_tree)
            known = {manifest.digest, *chain.from_iterable(map(_digests, platforms.values()))}
            if image.digest not in known:
                raise InvalidImage(
                    f"{self.name} has another image than the registry",
                    hint=Hint.any_of("try again", Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none"))),
                )
        return reference

    def _image(self, reference: Reference) -> EngineImage:
        name = _engine_name(reference)
        with self._lock:
            image = self._images.get(name)
        if image is None:
            with self._registries.transfers.reading(name):
                image = self._pull(reference, name)
            with self._lock:
                self._images[name] = image
        return image

    def read_tree(
        self, source: ImageReference, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """Return the contents of the files at or below the prefixes, by path."""
        if not isinstance(source, Reference):
            return self._local_tool.read_tree(source, prefixes, limits)
        image = self._image(source)
        tree: dict[str, bytes] = {}
        with self._engine.open_container(image) as open_archive:
            for prefix in prefixes:
                path = PurePosixPath("/", prefix)
                if (archive := open_archive(str(path))) is not None:
                    files = layer.read_tree([_layer(image, archive)], [path.name], limits or MEMORY_LIMITS)
                    tree |= {str(path.parent / name)[1:]: content for name, content in files.items()}
        return tree

    def extract(
        self, source: ImageReference, destination: Path, prefixes: Sequence[str] = ("",), limits: Limits | None = None
    ) -> None:
        """Extract the files at or below the prefixes, without those that the engine adds to containers."""
        if not isinstance(source, Reference):
            self._local_tool.extract(source, destination, prefixes, limits)
            return
        image = self._image(source)
        with self._engine.open_container(image) as open_archive:
            for prefix in prefixes:
                path = PurePosixPath("/", prefix)
                archive = open_archive(str(path))
                if archive is not None:
                    layers = [_layer(image, archive), _whiteout_layer(self._injected_below(path.parent))]
                    parent = destination / str(path.parent)[1:]
                    layer.extract_tree(layers, parent, (path.name,), limits or DISK_LIMITS)
        for directory in {PurePosixPath(path).parent for path in self._engine.injected_paths} - {PurePosixPath()}:
            with suppress(OSError):  # it does not exist, or contains other files
                (destination / directory).rmdir()

    def _injected_below(self, directory: PurePosixPath) -> list[str]:
        """Return the paths below a directory that the engine adds to containers, relative to the directory."""
        injected = (PurePosixPath("/", path) for path in self._engine.injected_paths)
        return [str(path.relative_to(directory)) for path in injected if path.is_relative_to(directory)]

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file to ``destination``; return whether it exists in the image."""
        if not isinstance(source, Reference):
            return self._local_tool.copy_file(source, path, destination, limits)
        image = self._image(source)
        wanted = PurePosixPath("/", path)
        with self._engine.open_container(image) as open_archive:
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
        """Build an image in the engine's storage, and push it from there.

        Returns:
            The digest of the image in its registry, "" without ``push``: engines compress layers when they push.
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
        """Push an image from the engine's storage to the registries of its names, and return its digest there."""
        targets = [self._target(reference) for reference in references]
        progress.begin(f"Pushing with {self.name}", None)
        try:
            digests = [self._push(target) for target in targets]
        finally:
            progress.end()
        return digests[0]

    def registry_digest(self, reference: ImageReference) -> str:
        """Return the digest that a name currently has in its registry, or "" if it does not exist."""
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
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            _log.warning("%s; the digest of the pushed image is unknown", error.message)
            return ""
        pushed = self._engine.find(name)
        is_same = isinstance(manifest, Manifest) and pushed is not None and manifest.config.digest == pushed.digest
        return manifest.digest if is_same else ""  # another writer may have moved the tag

    def _base(self, reference: ImageReference) -> str:
        registry_reference = self._require_registry(reference)
        self._image(registry_reference)
        return _engine_name(registry_reference)

    def _pull(self, reference: Reference, name: str) -> EngineImage:
        self._not_pulled.discard(name)
        if reference.digest and (present := self._engine.find(name)):
            return present
        try:
            self._engine.pull(name, self._credentials(reference))
        except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
            present = self._engine.find(name)
            if present is None:
                raise
            _log.warning("%s; using the image with this name in the storage of %s", error.message, self.name)
            self._not_pulled.add(name)
            return present
        pulled = self._engine.find(name)
        if pulled is None:
            raise NotFound(f"{reference}: not found in {self.name} after pulling it", hint="try again")
        return pulled

    def _credentials(self, reference: Reference) -> Credentials | None:
        return self._keychain.find(reference.registry, reference.repository)

    def _require_registry(self, reference: ImageReference) -> Reference:
        if not isinstance(reference, Reference):
            raise ImageToolsError(
                f"{reference}: unsupported by {self.name}: not the name of an image in a registry",
                hint=Hint.any_of(
                    Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
                    Hint("copy it to a registry with {}", ImageOperation.COPY_IMAGE),
                ),
            )
        return reference

    def _target(self, reference: ImageReference) -> Reference:
        target = self._require_registry(reference)
        if target.digest:
            raise ImageToolsError(
                f"{reference}: cannot store a new image by digest", hint="use a tag instead of the digest"
            )
        return target.with_default_tag()


def _engine_name(reference: Reference) -> str:
    """Return a name without a tag if it has a digest, since not all engines accept both."""
    return str(reference.with_digest(reference.digest) if reference.digest else reference.with_default_tag())


def _digests(image: Image) -> tuple[str, str]:
    """Return the digests that an engine may use as the ID of an image."""
    return image.digest, image.manifest.config.digest


def _read_tree(image: Image, directories: Sequence[str], limits: Limits) -> dict[str, bytes]:
    return layer.read_tree(reversed(image.layers), directories, limits)


def _layer(image: EngineImage, archive: BinaryIO) -> LayerSource:
    """Return an archive of files in a container as a layer, whose digest is that of the image in errors."""
    return Descriptor(media_types.OCI_LAYER, image.digest, 0), lambda: archive


def _whiteout_layer(paths: Sequence[str]) -> LayerSource:
    """Return a layer with whiteouts of these paths."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as whiteouts:
        for path in map(PurePosixPath, paths):
            whiteouts.addfile(tarfile.TarInfo(str(path.with_name(f"{WHITEOUT_PREFIX}{path.name}"))))
    content = archive.getvalue()
    return Descriptor(media_types.OCI_LAYER, sha256_digest(content), len(content)), lambda: io.BytesIO(content)


def open_engine(
    name: str, options: RegistryOptions, store: ImageStore, image_format: ImageFormat | None = None
) -> EngineTool:
    """Return the tool called ``docker``, ``podman`` or ``buildah``; its first call connects to the engine.

    Raises:
        ImageToolsError: The engine does not support the image format, or certificates from ``options``.
    """
    if options.signature_policy is not None or options.insecure_policy:
        raise ImageToolsError(
            f"{name}: unsupported option: the policy for signatures is configured in the engine",
            hint=Hint.any_of(
                f"write the policy.json that {name} reads",
                Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
            ),
        )
    settings = RegistrySettings()
    keychain = Keychain(options.authfile, helpers=settings.credential_helpers)
    engine = _FACTORIES[name](options, image_format)
    registries = RegistryClient(options, settings=settings)
    return EngineTool(engine, keychain, registries, RegistryTool(registries, store))


def _docker(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.docker import DockerEngine, has_address

    if image_format is ImageFormat.OCI:
        raise ImageToolsError(
            "docker: unsupported image format oci",
            hint=Hint.any_of(
                Hint("use {}", ImageSetting.IMAGE_FORMAT.with_value("v2s2")),
                Hint("build OCI images with {}, podman or buildah", ImageSetting.CONTAINER_TOOL.with_value("none")),
            ),
        )
    _check_no_certificates("docker", options, "/etc/docker/certs.d/HOST")
    if options.plain_http or not options.verify_tls:
        _log.warning(
            "docker: ignoring the TLS options; to allow plain HTTP or untrusted certificates, add the registry to "
            "insecure-registries in the daemon.json of the daemon"
        )
    program = find_program("docker")
    if program is not None and not has_address(os.environ):
        from opmkit.imagetools.engines.docker_program import DockerProgram  # only where there is no daemon

        return DockerProgram(program)
    return DockerEngine()


def _podman(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.podman import PodmanEngine

    _check_no_certificates("podman", options, "/etc/containers/certs.d/HOST")
    return PodmanEngine(image_format or ImageFormat.OCI, verify_tls=_verify_tls(options))


def _buildah(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.buildah import BuildahEngine

    image_format = image_format or ImageFormat.OCI
    return BuildahEngine(image_format, verify_tls=_verify_tls(options), certificates=options.certificates())


_FACTORIES = {"docker": _docker, "podman": _podman, "buildah": _buildah}


def _verify_tls(options: RegistryOptions) -> bool:
    """Return whether podman and buildah require TLS; they have no separate option for plain HTTP."""
    return options.verify_tls and not options.plain_http


def _check_no_certificates(engine: str, options: RegistryOptions, directory: str) -> None:
    if options.ca_file is not None or options.cert_dir is not None:
        raise ImageToolsError(
            f"{engine}: unsupported option: certificates are configured in the engine",
            hint=Hint.any_of(
                f"put them in {directory} where {engine} runs",
                Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
            ),
        )
