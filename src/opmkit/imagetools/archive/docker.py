"""Archives of ``docker save`` and ``docker load``: a manifest.json, image configurations and layers.

Docker before 25 names layers ID/layer.tar, podman and skopeo DIGEST.tar, with links. Docker 25 and later write an OCI
layout with a manifest.json. All are read through their manifest.json.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.errors import ImageToolsError, InvalidImage, InvalidReference, NotFound, UnsupportedImage
from opmkit.imagetools.layer import DISK_LIMITS, Compression, LimitTracker, read_tar
from opmkit.imagetools.layer.compression import MAGIC_SIZE, detect_compression, layer_media_type
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import (
    MAX_CONFIG_SIZE,
    MAX_MANIFEST_SIZE,
    Descriptor,
    ImageConfig,
    Manifest,
    media_types,
)
from opmkit.imagetools.spec.fields import Fields, decode_json, dump_json, invalid_field
from opmkit.imagetools.spec.manifest import MAX_LAYERS
from opmkit.imagetools.uncompressed import UncompressedImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.archive.reader import TarArchive
    from opmkit.imagetools.archive.writer import TarWriter
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.repository import BlobOpener

MANIFEST = "manifest.json"


class _ArchivedImage(Struct, frozen=True):
    """An image listed in manifest.json: the member with its configuration, its names, and the members of its layers."""

    config: str
    names: tuple[str, ...]
    layers: tuple[str, ...]


def read_docker_archive(
    archive: TarArchive, name: Reference | None = None, position: int | None = None
) -> UncompressedImage:
    """Return the image with a name, or at a position from 0, or the only image of an archive.

    Such archives contain no manifest, so one is built in Docker's format. Only compressed layers are read, to compute
    their digests.

    Raises:
        NotFound: The archive has no such image, or several.
        InvalidImage: The archive is not a valid docker archive.
        UnsupportedImage: The archive is in the format of docker before 1.10.
        LimitExceeded: A document in the archive is too large.
    """
    image = _select(archive, _list_images(archive), name, position)
    with _prefix_errors(archive, image.config):
        config = ImageConfig.parse(archive.read(image.config, MAX_CONFIG_SIZE))
    if len(config.diff_ids) != len(image.layers):
        raise archive.invalid(
            f"{MANIFEST} lists {len(image.layers)} layers, the configuration {image.config} {len(config.diff_ids)}"
        )
    layers = [_layer(archive, path, diff_id) for path, diff_id in zip(image.layers, config.diff_ids, strict=True)]
    manifest = _build_manifest(config, layers)
    blobs: dict[str, BlobOpener] = {
        layer.digest: partial(archive.stream, path) for layer, path in zip(layers, image.layers, strict=True)
    }
    blobs[config.digest] = partial(io.BytesIO, config.raw)
    return UncompressedImage(archive.location, manifest, blobs)


def write_docker_archive(
    image: Image, writer: TarWriter, name: Reference | None, *, progress: Progress = NO_PROGRESS
) -> Descriptor:
    """Write an archive of one image with uncompressed layers.

    The configuration is written unchanged, so docker and podman give the image the same ID.

    Returns:
        The descriptor of the manifest that read_docker_archive builds for the image.

    Raises:
        UnsupportedImage: The image has foreign layers.
        InvalidImage: A layer does not match its digest in the configuration.
    """
    diff_ids = image.config.diff_ids
    config_name = f"{_encoded(image.config.digest)}.json"
    paths = [f"{_encoded(diff_id)}.tar" for diff_id in diff_ids]
    item = {"Config": config_name, "RepoTags": [str(name)] if name else [], "Layers": paths}
    writer.add(MANIFEST, dump_json([item]))
    writer.add(config_name, image.config.raw)
    progress.begin("Writing layers", sum(layer.size for layer in image.manifest.layers))
    sizes: dict[str, int] = {}
    try:
        tracker = LimitTracker(DISK_LIMITS)
        for (descriptor, opener), diff_id, path in zip(image.layers, diff_ids, paths, strict=True):
            if media_types.is_foreign(descriptor.media_type):
                raise UnsupportedImage(
                    f"layer {descriptor.digest}: docker archives cannot contain foreign layers",
                    hint="copy the image to a registry or an OCI layout",
                )
            if diff_id not in sizes:
                sizes[diff_id] = writer.stream(path, _verify(read_tar((descriptor, opener), tracker), diff_id))
            progress.advance(descriptor.size)
    finally:
        progress.end()
    layers = [Descriptor(media_types.DOCKER_LAYER, diff_id, sizes[diff_id]) for diff_id in diff_ids]
    return _build_manifest(image.config, layers).descriptor


def _list_images(archive: TarArchive) -> list[_ArchivedImage]:
    if MANIFEST not in archive:
        if "oci-layout" in archive:
            raise archive.invalid(
                "the archive contains an OCI layout, not a docker image", f"use oci-archive:{archive.location}"
            )
        if "repositories" in archive:
            raise UnsupportedImage(
                f"{archive.location}: unsupported archive format of docker before 1.10",
                hint="save the image again with a newer docker",
            )
        raise archive.invalid(f"{MANIFEST} not found", "pass an archive such as 'docker save' creates")
    path = f"{archive.location}: {MANIFEST}"
    value = decode_json(archive.read(MANIFEST, MAX_MANIFEST_SIZE), path, limit=MAX_MANIFEST_SIZE)
    if not isinstance(value, list):
        raise invalid_field(path, "a list", value)
    images = (Fields.from_value(item, f"{path}[{position}]") for position, item in enumerate(value))
    return [
        _ArchivedImage(image.string("Config"), image.strings("RepoTags"), image.strings("Layers", limit=MAX_LAYERS))
        for image in images
    ]


def _select(
    archive: TarArchive, images: Sequence[_ArchivedImage], name: Reference | None, position: int | None
) -> _ArchivedImage:
    if position is not None:
        matches = images[position : position + 1]
    else:
        matches = [image for image in images if name is None or name in _references(image)]
    if len(matches) == 1:
        return matches[0]
    wanted = name or (None if position is None else f"at position {position}")
    count = "several images" if matches else "no image"
    names = ", ".join(name for image in images for name in image.names) or "none"
    raise NotFound(
        f"{archive.location}: contains {count}{f' {wanted}' if wanted else ''}",
        hint=f"use docker-archive:FILE:NAME:TAG or docker-archive:FILE:@POSITION; the archive contains: {names}",
    )


def _references(image: _ArchivedImage) -> Iterator[Reference]:
    for name in image.names:
        try:
            yield Reference.parse(name).with_default_tag()
        except InvalidReference:
            continue


def _layer(archive: TarArchive, path: str, diff_id: str) -> Descriptor:
    """Return the descriptor of a layer; that of an uncompressed one has its digest in the configuration."""
    size = archive.member(path).size
    with cast("io.BufferedReader", archive.stream(path)) as stream:
        compression = detect_compression(stream.peek(MAGIC_SIZE))
        if compression is Compression.NONE:
            digest = diff_id
        else:
            digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    return Descriptor(layer_media_type(compression, media_types.DOCKER_MANIFEST), digest, size)


def _build_manifest(config: ImageConfig, layers: Sequence[Descriptor]) -> Manifest:
    media_type = media_types.DOCKER_MANIFEST
    return Manifest.build(config.descriptor(media_type), layers, media_type=media_type)


def _verify(blocks: Iterator[bytes], diff_id: str) -> Iterator[bytes]:
    """Yield the blocks of a layer's tar archive; raise InvalidImage at the end if their digest is not ``diff_id``."""
    digest = hashlib.new(diff_id.partition(":")[0])
    for block in blocks:
        digest.update(block)
        yield block
    if digest.hexdigest() != _encoded(diff_id):
        raise InvalidImage(
            f"layer {diff_id}: content does not match the digest in the configuration", hint="rebuild the image"
        )


def _encoded(digest: str) -> str:
    return digest.partition(":")[2]


@contextmanager
def _prefix_errors(archive: TarArchive, member: str) -> Iterator[None]:
    try:
        yield
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        if error.message.startswith(archive.location):
            raise
        raise type(error)(f"{archive.location}: {member}: {error.message}", hint=error.hint) from error
