"""Images as values: built on a base by appending, without reading a layer of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import InvalidImage, LimitExceeded, NotFound, UnsupportedImage
from opmkit.imagetools.repository import Source, verify_stream
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
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.layer.reader import LayerSource
    from opmkit.imagetools.layer.write import Layer

_NESTING = 4
_DEFAULT_PLATFORM = Platform("linux", "amd64")


@dataclass(frozen=True, slots=True)
class Image:
    """An image for one platform.

    ``source`` is where the blobs of its layers are, ``local`` the files of those that were written here; layers count
    from the bottom.
    """

    manifest: Manifest
    config: ImageConfig
    source: Source | None = field(default=None, compare=False)
    local: Mapping[str, Path] = field(default_factory=dict, compare=False)

    @classmethod
    def scratch(cls, platform: Platform = _DEFAULT_PLATFORM, media_type: str = media_types.OCI_MANIFEST) -> Image:
        """An image without layers."""
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
        """The layers, bottom first, each with the function that opens its blob."""
        return tuple((layer, partial(self.open_blob, layer)) for layer in self.manifest.layers)

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A layer's content, verified when read to its end; raises NotFound."""
        if path := self.local.get(descriptor.digest):
            with disk_errors(path):
                return verify_stream(path.open("rb"), descriptor)
        if self.source is None:
            raise NotFound(f"layer {descriptor.digest} of the image is not there")
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
        """This image with layers on top and its configuration changed, in the same format, OCI or Docker.

        ``annotations`` are merged over the manifest's own; ``created`` is an RFC 3339 time. Nothing is read.
        """
        diff_ids = [layer.diff_id for layer in layers]
        config = self.config.with_changes(changes or ConfigChanges(), diff_ids, created=created, created_by=created_by)
        stack = [*self.manifest.layers, *(layer.descriptor for layer in layers)]
        annotations = {**self.manifest.annotations, **(annotations or {})}
        image = self._rebuilt(config, stack, annotations, self.manifest.media_type)
        return replace(image, local={**self.local, **{layer.descriptor.digest: layer.path for layer in layers}})

    def without_layers(self, positions: Collection[int]) -> Image:
        """This image without the layers at these positions, the bottom one being 0; its history follows."""
        config = self.config.without_layers(positions)
        kept = [layer for position, layer in enumerate(self.manifest.layers) if position not in positions]
        return self._rebuilt(config, kept, self.manifest.annotations, self.manifest.media_type)

    def replace_layers(self, others: Mapping[str, Layer]) -> Image:
        """This image with other blobs of the same content in the place of the layers of these digests."""
        stack = [others[layer.digest].descriptor if layer.digest in others else layer for layer in self.manifest.layers]
        image = self._rebuilt(self.config, stack, self.manifest.annotations, self.manifest.media_type)
        return replace(
            image, local={**self.local, **{layer.descriptor.digest: layer.path for layer in others.values()}}
        )

    def as_oci(self) -> Image:
        """This image in OCI's format, the only one that other tools find by its tag in an OCI layout."""
        return self.in_format(media_types.OCI_MANIFEST)

    def in_format(self, media_type: str) -> Image:
        """This image with a manifest of that type, OCI's or Docker's.

        An image in that format already is left as it is; another gets a new manifest over the same blobs.
        """
        if self.manifest.media_type == media_type:
            return self
        return self._rebuilt(self.config, self.manifest.layers, self.manifest.annotations, media_type)

    def with_annotations(self, annotations: Mapping[str, str]) -> Image:
        """This image with these annotations merged over its own."""
        return self._rebuilt(
            self.config, self.manifest.layers, {**self.manifest.annotations, **annotations}, self.manifest.media_type
        )

    def _rebuilt(
        self, config: ImageConfig, layers: Sequence[Descriptor], annotations: Mapping[str, str], media_type: str
    ) -> Image:
        layers = [replace(part, media_type=media_types.convert_for(media_type, part.media_type)) for part in layers]
        manifest = Manifest.build(config.descriptor(media_type), layers, annotations, media_type)
        return replace(self, manifest=manifest, config=config)


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """An image for several platforms: an index and its images, in the index's order.

    ``others`` are the manifests of the index that are no images, such as build attestations.
    """

    index: IndexManifest
    images: tuple[Image, ...]
    others: tuple[Manifest, ...] = ()
    source: Source | None = field(default=None, compare=False)

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
        """What Image.append does, for every platform; the annotations go on the index as well.

        Attestations are left out: they are about the images as they were.
        """
        images = [
            image.append(layers, changes, annotations=annotations, created=created, created_by=created_by)
            for image in self.images
        ]
        return self.with_images(images, annotations)

    def without_layers(self, positions: Collection[int]) -> ImageIndex:
        """What Image.without_layers does, for every platform."""
        return self.with_images([image.without_layers(positions) for image in self.images])

    def as_oci(self) -> ImageIndex:
        """What Image.as_oci does, for every platform."""
        return self.in_format(media_types.OCI_MANIFEST)

    def in_format(self, media_type: str) -> ImageIndex:
        """What Image.in_format does, for every platform; attestations are left out of an image that changes."""
        images = tuple(image.in_format(media_type) for image in self.images)
        index_type = media_types.convert_for(media_type, media_types.OCI_INDEX)
        if self.index.media_type == index_type and images == self.images:
            return self
        return replace(self, index=replace(self.index, media_type=index_type)).with_images(images)

    def with_annotations(self, annotations: Mapping[str, str]) -> ImageIndex:
        """This image with these annotations merged over those of the index, without attestations."""
        return self.with_images(self.images, annotations)

    def select(self, platform: Platform | None = None) -> Image:
        """The image for a platform, chosen as IndexManifest.select does."""
        chosen = self.index.select(platform)
        return next(image for image in self.images if image.digest == chosen.digest)

    def with_images(self, images: Sequence[Image], annotations: Mapping[str, str] | None = None) -> ImageIndex:
        """These images in the place of those there are, one for each, without attestations."""
        manifests = [
            replace(image.manifest.descriptor, platform=before.platform or image.config.platform)
            for before, image in zip(self.index.images, images, strict=True)
        ]
        index = IndexManifest.build(manifests, {**self.index.annotations, **(annotations or {})}, self.index.media_type)
        return ImageIndex(index, tuple(images), source=self.source)


def select_platforms(image: Image | ImageIndex, platforms: Sequence[Platform], name: str) -> Image | ImageIndex:
    """The image called ``name`` with these platforms alone: a plain image if that leaves one, else an index in its
    order, without attestations; all of it if none are named. A platform without a variant stands for each of its
    variants.

    Raises NotFound, with the platforms there are in its hint, also for an index without any image.
    """
    there = _platforms(image)
    if not there:
        raise NotFound(f"{name} has no image, for whatever platform", hint="name another image")
    if not platforms:
        return image
    for platform in platforms:
        if not any(each.satisfies(platform) for each in there):
            has = ", ".join(map(str, there))
            raise NotFound(f"{name} has no image for {platform}", hint=f"choose among its platforms: {has}")
    kept = [position for position, each in enumerate(there) if any(each.satisfies(platform) for platform in platforms)]
    if isinstance(image, Image):
        return image
    if len(kept) == 1:
        return image.images[kept[0]]
    descriptors, images = image.index.images, image.images
    index = IndexManifest.build([descriptors[at] for at in kept], image.index.annotations, image.index.media_type)
    return ImageIndex(index, tuple(images[at] for at in kept), source=image.source)


def _platforms(image: Image | ImageIndex) -> list[Platform]:
    if isinstance(image, Image):
        return [image.config.platform]
    pairs = zip(image.index.images, image.images, strict=True)
    return [descriptor.platform or part.config.platform for descriptor, part in pairs]


def load_image(repository: Source, identifier: str, platform: Platform | None = None) -> Image:
    """The image that a tag or digest names, of an index the one for ``platform`` (see IndexManifest.select).

    Reads manifests and the configuration, no layer. Raises NotFound, InvalidImage, UnsupportedImage and what the
    repository raises.
    """
    outer = manifest = repository.get_manifest(identifier)
    for _ in range(_NESTING):
        if isinstance(manifest, Manifest):
            return _with_config(repository, manifest)
        manifest = repository.get_manifest(manifest.select(platform).digest)
    raise InvalidImage(
        f"image index {outer.digest} holds others, nested deeper than {_NESTING}",
        hint="name the image by its digest",
    )


def load_image_or_index(repository: Source, identifier: str) -> Image | ImageIndex:
    """The image or, with all its platforms, the image index that a tag or digest names; raises as load_image does."""
    index = repository.get_manifest(identifier)
    if isinstance(index, Manifest):
        return _with_config(repository, index)
    images, others = [], []
    for descriptor in index.manifests:
        manifest = repository.get_manifest(descriptor.digest)
        if isinstance(manifest, IndexManifest):
            raise UnsupportedImage(
                f"image index {index.digest} holds another index",
                hint=f"name the inner one by its digest: {descriptor.digest}",
            )
        if descriptor in index.images:
            images.append(_with_config(repository, manifest))
        else:
            others.append(manifest)
    return ImageIndex(index, tuple(images), tuple(others), repository)


def _with_config(repository: Source, manifest: Manifest) -> Image:
    if manifest.config.media_type not in media_types.CONFIGS:
        raise UnsupportedImage(
            f"manifest {manifest.digest} is of an artifact of type {manifest.config.media_type}, not of an image",
            hint="give the reference of a container image",
        )
    if manifest.config.size > MAX_CONFIG_SIZE:
        raise LimitExceeded(f"config {manifest.config.digest} is longer than the bound of {MAX_CONFIG_SIZE} bytes")
    config = ImageConfig.parse(repository.get_config(manifest.config))
    if len(config.diff_ids) != len(manifest.layers):
        raise InvalidImage(
            f"manifest {manifest.digest} has {len(manifest.layers)} layers, its configuration {len(config.diff_ids)}",
            hint="the image is damaged: build and push it anew",
        )
    return Image(manifest, config, repository)
