"""Images and image indexes as immutable values, changed without reading their layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from msgspec import structs

from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.repository import ImageSource, verify_stream
from opmkit.imagetools.spec import (
    EPOCH,
    MAX_CONFIG_SIZE,
    ConfigChanges,
    Descriptor,
    ImageConfig,
    IndexManifest,
    Manifest,
    Platform,
    media_types,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.layer import Layer, LayerSource

_MAX_INDEX_DEPTH = 4
MAX_PLATFORMS = 32
"""Images of an index that `load_platforms` loads; Linux has about ten platforms with images."""
_DEFAULT_PLATFORM = Platform("linux", "amd64")


@dataclass(frozen=True, slots=True)
class Image:
    """An image for one platform.

    ``source`` is where its blobs are read from, except for new layers: ``local_layers`` maps their digests to files.
    """

    manifest: Manifest
    config: ImageConfig
    source: ImageSource | None = field(default=None, compare=False)
    local_layers: Mapping[str, Path] = field(default_factory=dict, compare=False)

    @classmethod
    def scratch(cls, platform: Platform = _DEFAULT_PLATFORM, media_type: str = media_types.OCI_MANIFEST) -> Image:
        """Build an image without layers."""
        config = ImageConfig.scratch(platform)
        return cls(Manifest.build(config.descriptor(media_type), (), media_type=media_type), config)

    @property
    def digest(self) -> str:
        """The manifest's digest."""
        return self.manifest.digest

    @property
    def labels(self) -> Mapping[str, str]:
        """The configuration's labels."""
        return self.config.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The manifest's annotations."""
        return self.manifest.annotations

    @property
    def layers(self) -> tuple[LayerSource, ...]:
        """The layers, bottom first, each with a function that opens its blob."""
        return tuple((layer, partial(self.open_blob, layer)) for layer in self.manifest.layers)

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a layer's blob; reading it to the end verifies it.

        Raises:
            NotFound: The image has no such layer.
        """
        if path := self.local_layers.get(descriptor.digest):
            with disk_errors(path):
                return verify_stream(path.open("rb"), descriptor)
        if self.source is None:
            raise NotFound(f"layer {descriptor.digest}: not found")
        return self.source.open_blob(descriptor)

    def append(
        self,
        layers: Sequence[Layer] = (),
        changes: ConfigChanges | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        created: str = EPOCH,
        created_by: str = "opmkit",
    ) -> Image:
        """Return a copy with layers added on top and changed settings, in the same format (OCI or Docker).

        Args:
            layers: New layers, bottom first.
            changes: Changes to the configuration.
            annotations: Annotations to merge into the manifest's.
            created: RFC 3339 time.
            created_by: Name of the build step in the history.
        """
        diff_ids = [layer.diff_id for layer in layers]
        config = self.config.with_changes(changes or ConfigChanges(), diff_ids, created=created, created_by=created_by)
        descriptors = [*self.manifest.layers, *(layer.descriptor for layer in layers)]
        annotations = {**self.manifest.annotations, **(annotations or {})}
        return self._rebuild(config, descriptors, annotations, self.manifest.media_type)._with_local_layers(layers)

    def without_layers(self, positions: Collection[int]) -> Image:
        """Return a copy without the layers at these positions (0 is the bottom layer) and their history."""
        config = self.config.without_layers(positions)
        layers = [layer for position, layer in enumerate(self.manifest.layers) if position not in positions]
        return self._rebuild(config, layers, self.manifest.annotations, self.manifest.media_type)

    def replace_layers(self, replacements: Mapping[str, Layer]) -> Image:
        """Return a copy with other blobs of the same content, such as compressed ones, by the old layers' digests."""
        layers = [
            replacements[layer.digest].descriptor if layer.digest in replacements else layer
            for layer in self.manifest.layers
        ]
        image = self._rebuild(self.config, layers, self.manifest.annotations, self.manifest.media_type)
        return image._with_local_layers(replacements.values())

    def in_format(self, media_type: str) -> Image:
        """Return the image with a manifest of this type, OCI or Docker, over the same blobs."""
        if self.manifest.media_type == media_type:
            return self
        return self._rebuild(self.config, self.manifest.layers, self.manifest.annotations, media_type)

    def with_annotations(self, annotations: Mapping[str, str]) -> Image:
        """Return a copy with these annotations merged into the manifest's."""
        return self._rebuild(
            self.config, self.manifest.layers, {**self.manifest.annotations, **annotations}, self.manifest.media_type
        )

    def _rebuild(
        self, config: ImageConfig, layers: Sequence[Descriptor], annotations: Mapping[str, str], media_type: str
    ) -> Image:
        layers = [
            structs.replace(layer, media_type=media_types.convert_for(media_type, layer.media_type)) for layer in layers
        ]
        manifest = Manifest.build(config.descriptor(media_type), layers, annotations, media_type)
        return replace(self, manifest=manifest, config=config)

    def _with_local_layers(self, layers: Collection[Layer]) -> Image:
        return replace(
            self, local_layers={**self.local_layers, **{layer.descriptor.digest: layer.path for layer in layers}}
        )


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An image index with its images, in the index's order.

    ``artifacts`` are the manifests in the index that are not images, such as build attestations.
    """

    index: IndexManifest
    images: tuple[Image, ...]
    artifacts: tuple[Manifest, ...] = ()
    source: ImageSource | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """The index's digest."""
        return self.index.digest

    def append(
        self,
        layers: Sequence[Layer] = (),
        changes: ConfigChanges | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        created: str = EPOCH,
        created_by: str = "opmkit",
    ) -> ImageIndex:
        """Apply `Image.append` to every image, and merge the annotations into the index's as well.

        Attestations are dropped, since they describe the unchanged images.
        """
        images = [
            image.append(layers, changes, annotations=annotations, created=created, created_by=created_by)
            for image in self.images
        ]
        return self.with_images(images, annotations)

    def without_layers(self, positions: Collection[int]) -> ImageIndex:
        """Apply `Image.without_layers` to every image."""
        return self.with_images([image.without_layers(positions) for image in self.images])

    def in_format(self, media_type: str) -> ImageIndex:
        """Return the index with images of this manifest type, OCI or Docker; drop attestations if it changes."""
        images = tuple(image.in_format(media_type) for image in self.images)
        index_type = media_types.convert_for(media_type, media_types.OCI_INDEX)
        if self.index.media_type == index_type and images == self.images:
            return self
        return replace(self, index=structs.replace(self.index, media_type=index_type)).with_images(images)

    def with_annotations(self, annotations: Mapping[str, str]) -> ImageIndex:
        """Return a copy with these annotations merged into the index's, without attestations."""
        return self.with_images(self.images, annotations)

    def select(self, platform: Platform | None = None) -> Image:
        """Return the image for a platform, chosen as `IndexManifest.select` does; raises NotFound."""
        digest = self.index.select(platform).digest
        return next(image for image in self.images if image.digest == digest)

    def with_images(self, images: Sequence[Image], annotations: Mapping[str, str] | None = None) -> ImageIndex:
        """Return a copy with each image replaced by the one at its position, without attestations."""
        manifests = [
            structs.replace(image.manifest.descriptor, platform=old.platform or image.config.platform)
            for old, image in zip(self.index.images, images, strict=True)
        ]
        index = IndexManifest.build(manifests, {**self.index.annotations, **(annotations or {})}, self.index.media_type)
        return ImageIndex(index, tuple(images), source=self.source)


def select_platforms(image: Image | ImageIndex, platforms: Sequence[Platform], name: str) -> Image | ImageIndex:
    """Return ``image`` restricted to ``platforms``, all of it if there are none.

    The result is an `Image` if one platform remains, otherwise an index in the old order without attestations. A
    platform without a variant selects all variants.

    Args:
        image: The image or index.
        platforms: The platforms to select.
        name: The image's name, for error messages.

    Raises:
        NotFound: The image lacks one of the platforms, or is an index without images.
    """
    available = _platforms(image)
    if not available:
        raise NotFound(f"{name} has no image for any platform", hint="name another image")
    if not platforms:
        return image
    for wanted in platforms:
        if not any(platform.satisfies(wanted) for platform in available):
            names = list(map(str, available))
            similar = [f"did you mean {close}?" for close in get_close_matches(str(wanted), names, 1)]
            hint = " ".join([*similar, f"choose one of its platforms: {', '.join(names)}"])
            raise NotFound(f"{name} has no image for {wanted}", hint=hint)
    if isinstance(image, Image):
        return image
    selected = [
        position
        for position, platform in enumerate(available)
        if any(platform.satisfies(wanted) for wanted in platforms)
    ]
    if len(selected) == 1:
        return image.images[selected[0]]
    descriptors = image.index.images
    manifests = [descriptors[position] for position in selected]
    index = IndexManifest.build(manifests, image.index.annotations, image.index.media_type)
    return ImageIndex(index, tuple(image.images[position] for position in selected), source=image.source)


def _platforms(image: Image | ImageIndex) -> list[Platform]:
    if isinstance(image, Image):
        return [image.config.platform]
    pairs = zip(image.index.images, image.images, strict=True)
    return [descriptor.platform or child.config.platform for descriptor, child in pairs]


def load_image(repository: ImageSource, identifier: str, platform: Platform | None = None) -> Image:
    """Load the image that a tag or digest names; from an index the one that `IndexManifest.select` chooses.

    Only manifests and the configuration are read.

    Raises:
        NotFound: The image, or an image for the platform, does not exist.
        InvalidImage: A manifest or the configuration is malformed.
        UnsupportedImage: The format is unsupported, or it is not an image.
    """
    return load_manifest_image(repository, repository.get_manifest(identifier), platform)


def load_manifest_image(
    repository: ImageSource, manifest: Manifest | IndexManifest, platform: Platform | None = None
) -> Image:
    """Load the image of a manifest, or from an index the one that `load_image` loads; raises the errors of that."""
    selected = manifest
    for _ in range(_MAX_INDEX_DEPTH):
        if isinstance(selected, Manifest):
            return _with_config(repository, selected)
        selected = repository.get_manifest(selected.select(platform).digest)
    raise InvalidImage(
        f"image index {manifest.digest}: nested indexes exceed the limit of {_MAX_INDEX_DEPTH} levels",
        hint="name the image by its digest",
    )


def load_image_or_index(repository: ImageSource, identifier: str) -> Image | ImageIndex:
    """Load the image or index, with all its images, that a tag or digest names; raises the errors of `load_image`."""
    index = repository.get_manifest(identifier)
    if isinstance(index, Manifest):
        return _with_config(repository, index)

    load = partial(_load_child, repository, index)
    images = tuple(_with_config(repository, load(descriptor)) for descriptor in index.images)
    return ImageIndex(index, images, tuple(map(load, index.artifacts)), repository)


def load_platforms(repository: ImageSource, manifest: Manifest | IndexManifest) -> dict[str, Image]:
    """Load the images that clusters may run for a manifest or index, by platform and position.

    Unlike `load_image_or_index`, this includes images that an index describes as artifacts, because container runtimes
    select a manifest by its platform only. No runtime selects those for ``unknown/unknown``, such as attestations.

    Raises:
        NotFound: The index has no image.
        InvalidImage: The index has more than MAX_PLATFORMS images, or a manifest of it does not exist or is malformed.
        UnsupportedImage: The index contains another index, or something else than an image.
    """
    if isinstance(manifest, Manifest):
        image = _with_config(repository, manifest)
        return {str(image.config.platform): image}
    runnable = [descriptor for descriptor in manifest.manifests if not descriptor.is_for_unknown_platform]
    if not runnable:
        raise NotFound(f"image index {manifest.digest} has no image", hint="name another image")
    if len(runnable) > MAX_PLATFORMS:
        raise InvalidImage(
            f"image index {manifest.digest}: {len(runnable)} images exceed the limit of {MAX_PLATFORMS}",
            hint="name an index with fewer images",
        )
    images: dict[str, Image] = {}
    for number, descriptor in enumerate(runnable, 1):
        name = f"image {number} for {descriptor.platform or 'any platform'}"
        try:
            images[name] = _with_config(repository, _load_child(repository, manifest, descriptor))
        except NotFound as error:
            raise InvalidImage(
                f"image index {manifest.digest}: {name}: {error.message}", hint="push the index with all of its images"
            ) from error
    return images


def _load_child(repository: ImageSource, index: IndexManifest, descriptor: Descriptor) -> Manifest:
    manifest = repository.get_manifest(descriptor.digest)
    if isinstance(manifest, IndexManifest):
        raise UnsupportedImage(
            f"image index {index.digest}: unsupported nested index",
            hint=f"name the inner index by its digest: {descriptor.digest}",
        )
    return manifest


def _with_config(repository: ImageSource, manifest: Manifest) -> Image:
    if manifest.config.media_type not in media_types.CONFIGS:
        raise UnsupportedImage(
            f"manifest {manifest.digest}: an artifact of type {manifest.config.media_type}, not an image",
            hint="give the reference of a container image",
        )
    if manifest.config.size > MAX_CONFIG_SIZE:
        raise LimitExceeded(
            f"config {manifest.config.digest}: {manifest.config.size} bytes exceed the limit of {MAX_CONFIG_SIZE}"
        )
    config = ImageConfig.parse(repository.get_config(manifest.config))
    if len(config.diff_ids) != len(manifest.layers):
        raise InvalidImage(
            f"manifest {manifest.digest} has {len(manifest.layers)} layers, its configuration {len(config.diff_ids)}",
            hint="the image is damaged: build and push it again",
        )
    return Image(manifest, config, repository)
