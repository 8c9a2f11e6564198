"""Layers made by hand, hostile ones among them, and small images."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import zstandard

from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.repository import verify_stream
from opmkit.imagetools.spec import ConfigChanges, Descriptor, IndexManifest, Platform, media_types, sha256_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from opmkit.imagetools.layer import LayerSource

Member = tuple[tarfile.TarInfo, bytes]


def member(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644
) -> Member:
    """An entry of a tar archive, as any name and target."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(content)
    return info, content


def symlink(name: str, target: str) -> Member:
    """A symbolic link."""
    return member(name, kind=tarfile.SYMTYPE, target=target)


def hardlink(name: str, target: str) -> Member:
    """A hard link."""
    return member(name, kind=tarfile.LNKTYPE, target=target)


def directory(name: str, mode: int = 0o755) -> Member:
    """A directory."""
    return member(name, kind=tarfile.DIRTYPE, mode=mode)


def tar(members: Iterable[Member]) -> bytes:
    """The archive of the entries, in their order."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return output.getvalue()


def layer_source(content: bytes, media_type: str = media_types.OCI_LAYER) -> LayerSource:
    """A layer blob of these bytes, verified as every repository does it."""
    descriptor = Descriptor(media_type, sha256_digest(content), len(content))
    return descriptor, lambda: verify_stream(io.BytesIO(content), descriptor)


def layer(*members: Member, compression: str = "") -> LayerSource:
    """A layer of these entries, uncompressed, ``gzip`` or ``zstd``."""
    content = tar(members)
    if compression == "gzip":
        return layer_source(gzip.compress(content), media_types.OCI_LAYER_GZIP)
    if compression == "zstd":
        return layer_source(zstandard.ZstdCompressor().compress(content), media_types.OCI_LAYER_ZSTD)
    return layer_source(content)


def small_image(
    scratch: Path,
    files: Mapping[str, bytes],
    *,
    labels: Mapping[str, str] | None = None,
    platform: str = "linux/amd64",
    media_type: str = media_types.OCI_MANIFEST,
) -> Image:
    """An image of one layer with the files; its blob lies in ``scratch``."""
    written = write_layer([LayerFile(path, content) for path, content in files.items()], scratch)
    return Image.scratch(Platform.parse(platform), media_type).append([written], ConfigChanges(labels=labels or {}))


def multi_image(images: Iterable[Image], media_type: str = media_types.OCI_INDEX) -> ImageIndex:
    """An image index of the images."""
    images = tuple(images)
    manifests = [
        Descriptor(image.manifest.media_type, image.digest, len(image.manifest.raw), image.config.platform)
        for image in images
    ]
    return ImageIndex(IndexManifest.build(manifests, media_type=media_type), images)
