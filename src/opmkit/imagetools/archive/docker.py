"""Archives as ``docker save`` writes them and ``docker load`` reads them: manifest.json, configurations, plain layers.

Docker up to 24 keeps layers at ID/layer.tar, podman and skopeo at DIGEST.tar with links, docker from 25 on writes an
OCI layout with a manifest.json beside. They are all read by what manifest.json says.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from opmkit.imagetools.errors import ImageToolsError, InvalidImage, InvalidReference, NotFound, UnsupportedImage
from opmkit.imagetools.layer import ON_DISK, Meter, read_tar
from opmkit.imagetools.layer.compression import compression_of
from opmkit.imagetools.progress import NO_PROGRESS, Progress
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
_LAYER_TYPES = {
    "": media_types.DOCKER_LAYER,
    "gzip": media_types.DOCKER_LAYER_GZIP,
    "zstd": media_types.DOCKER_LAYER_ZSTD,
}


@dataclass(frozen=True, slots=True)
class _Item:
    """What manifest.json says of an image: its names, and the members that it is made of."""

    config: str
    names: tuple[str, ...]
    layers: tuple[str, ...]


def read_docker_archive(
    archive: TarArchive, name: Reference | None = None, position: int | None = None
) -> UncompressedImage:
    """The image of an archive that has this name or is at this position from 0, by default the only one.

    Its manifest is made up, in Docker's format: such archives have none. Layers are read only where they are
    compressed, to know their digests. Raises NotFound, InvalidImage, UnsupportedImage and LimitExceeded, which name
    archive and member.
    """
    item = _chosen(archive, _items(archive), name, position)
    with _naming(archive, item.config):
        config = ImageConfig.parse(archive.read(item.config, MAX_CONFIG_SIZE))
    if len(config.diff_ids) != len(item.layers):
        raise archive.invalid(
            f"{MANIFEST} has {len(item.layers)} layers, the configuration {item.config} {len(config.diff_ids)}"
        )
    layers = [_layer(archive, path, diff_id) for path, diff_id in zip(item.layers, config.diff_ids, strict=True)]
    manifest = _manifest(config, layers)
    blobs: dict[str, BlobOpener] = {
        layer.digest: partial(archive.stream, path) for layer, path in zip(layers, item.layers, strict=True)
    }
    blobs[config.digest] = partial(io.BytesIO, config.raw)
    return UncompressedImage(archive.place, manifest, blobs)


def write_docker_archive(
    image: Image, writer: TarWriter, name: Reference | None, *, progress: Progress = NO_PROGRESS
) -> Descriptor:
    """Write an archive of one image, with uncompressed layers; the descriptor of what reading it gives.

    The configuration keeps its bytes, so the image keeps the ID that it has in docker and podman. Raises
    UnsupportedImage for layers kept elsewhere, InvalidImage for those that aren't what the configuration says.
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
        meter = Meter(ON_DISK)
        for (descriptor, opener), diff_id, path in zip(image.layers, diff_ids, paths, strict=True):
            if media_types.is_foreign(descriptor.media_type):
                hint = "copy the image to a registry or an OCI layout: those can name where its layers are"
                raise UnsupportedImage(f"layer {descriptor.digest} is kept elsewhere", hint=hint)
            if diff_id not in sizes:
                sizes[diff_id] = writer.stream(path, _checked(read_tar((descriptor, opener), meter), diff_id))
            progress.advance(descriptor.size)
    finally:
        progress.end()
    layers = [Descriptor(media_types.DOCKER_LAYER, diff_id, sizes[diff_id]) for diff_id in diff_ids]
    return _manifest(image.config, layers).descriptor


def _items(archive: TarArchive) -> list[_Item]:
    if MANIFEST not in archive:
        if "oci-layout" in archive:
            raise archive.invalid("it is an archive of an OCI layout", f"write oci-archive:{archive.place}")
        if "repositories" in archive:
            raise UnsupportedImage(f"{archive.place}: written by docker before 1.10", hint="save the image anew")
        raise archive.invalid(f"it has no {MANIFEST}", "name an archive such as 'docker save' makes")
    where = f"{archive.place}: {MANIFEST}"
    value = decode_json(archive.read(MANIFEST, MAX_MANIFEST_SIZE), where, limit=MAX_MANIFEST_SIZE)
    if not isinstance(value, list):
        raise invalid_field(where, "a list", value)
    fields = (Fields.from_value(item, f"{where}[{position}]") for position, item in enumerate(value))
    return [
        _Item(item.string("Config"), item.strings("RepoTags"), item.strings("Layers", limit=MAX_LAYERS))
        for item in fields
    ]


def _chosen(archive: TarArchive, items: Sequence[_Item], name: Reference | None, position: int | None) -> _Item:
    if position is not None:
        found = items[position : position + 1]
    else:
        found = [item for item in items if name is None or name in _references(item)]
    if len(found) == 1:
        return found[0]
    wanted = name or (None if position is None else f"at position {position}")
    problem = "more than one image" if found else "no image"
    names = ", ".join(tag for item in items for tag in item.names) or "none"
    raise NotFound(
        f"{archive.place}: {problem}{f' {wanted}' if wanted else ''} in it",
        hint=f"name one as docker-archive:FILE:NAME:TAG or docker-archive:FILE:@POSITION; the names are: {names}",
    )


def _references(item: _Item) -> Iterator[Reference]:
    for name in item.names:
        try:
            yield Reference.parse(name).with_default_tag()
        except InvalidReference:
            continue


def _layer(archive: TarArchive, path: str, diff_id: str) -> Descriptor:
    """The descriptor of a layer: an uncompressed one has the digest that the configuration tells."""
    size = archive.member(path).size
    with cast("io.BufferedReader", archive.stream(path)) as stream:
        compression = compression_of(stream.peek(4))
        digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}" if compression else diff_id
    return Descriptor(_LAYER_TYPES[compression], digest, size)


def _manifest(config: ImageConfig, layers: Sequence[Descriptor]) -> Manifest:
    of_docker = media_types.DOCKER_MANIFEST
    return Manifest.build(config.descriptor(of_docker), layers, media_type=of_docker)


def _checked(blocks: Iterator[bytes], diff_id: str) -> Iterator[bytes]:
    """The blocks of a layer's tar archive; raises InvalidImage in the end unless ``diff_id`` is their digest."""
    digest = hashlib.new(diff_id.partition(":")[0])
    for block in blocks:
        digest.update(block)
        yield block
    if digest.hexdigest() != _encoded(diff_id):
        raise InvalidImage(
            f"the layer that is {diff_id} by the configuration has another content",
            hint="the image is damaged: build it anew",
        )


def _encoded(digest: str) -> str:
    return digest.partition(":")[2]


@contextmanager
def _naming(archive: TarArchive, member: str) -> Iterator[None]:
    """Put archive and member before the message of an error inside."""
    try:
        yield
    except ImageToolsError as error:
        if error.message.startswith(archive.place):
            raise
        raise type(error)(f"{archive.place}: {member}: {error.message}", hint=error.hint) from error
