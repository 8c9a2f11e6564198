"""Layers with arbitrary tar entries, and small images."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.layer import Compression, Layer, LayerFile, write_layer
from opmkit.imagetools.repository import verify_stream
from opmkit.imagetools.spec import ConfigChanges, Descriptor, IndexManifest, Platform, media_types, sha256_digest
from tests.kit import zstd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from opmkit.imagetools.layer import LayerSource

Member = tuple[tarfile.TarInfo, bytes]


def member(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644
) -> Member:
    """Return an entry of a tar archive with any name and target."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(content)
    return info, content


def symlink(name: str, target: str) -> Member:
    """Return a symbolic link."""
    return member(name, kind=tarfile.SYMTYPE, target=target)


def hardlink(name: str, target: str) -> Member:
    """Return a hard link."""
    return member(name, kind=tarfile.LNKTYPE, target=target)


def directory(name: str, mode: int = 0o755) -> Member:
    """Return a directory."""
    return member(name, kind=tarfile.DIRTYPE, mode=mode)


def tar(members: Iterable[Member]) -> bytes:
    """Return a tar archive of the entries, in their order."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return output.getvalue()


def layer_source(content: bytes, media_type: str = media_types.OCI_LAYER) -> LayerSource:
    """Return a layer blob with these bytes, which is verified like those of repositories."""
    descriptor = Descriptor(media_type, sha256_digest(content), len(content))
    return descriptor, lambda: verify_stream(io.BytesIO(content), descriptor)


def layer(*members: Member, compression: str = "") -> LayerSource:
    """Return a layer with these entries, uncompressed, ``gzip`` or ``zstd``."""
    content = tar(members)
    if compression == "gzip":
        return layer_source(gzip.compress(content), media_types.OCI_LAYER_GZIP)
    if compression == "zstd":
        return layer_source(zstd.compress(content), media_types.OCI_LAYER_ZSTD)
    return layer_source(content)


def written_layer(files: Mapping[str, bytes], directory: Path, compression: Compression) -> Layer:
    """Write a layer with the files in any compression; opmkit itself writes gzip or none."""
    members = [LayerFile(path, content) for path, content in files.items()]
    written = write_layer(members, directory, compressed=compression is Compression.GZIP)
    if compression is not Compression.ZSTD:
        return written
    content = zstd.compress(written.path.read_bytes())
    path = directory / "zstd.layer"
    path.write_bytes(content)
    descriptor, _ = layer_source(content, media_types.OCI_LAYER_ZSTD)
    return Layer(descriptor, written.diff_id, path)


def small_image(
    scratch: Path,
    files: Mapping[str, bytes],
    *,
    labels: Mapping[str, str] | None = None,
    platform: str = "linux/amd64",
    media_type: str = media_types.OCI_MANIFEST,
) -> Image:
    """Return an image with one layer that contains the files, and is written to ``scratch``."""
    written = write_layer([LayerFile(path, content) for path, content in files.items()], scratch)
    return Image.scratch(Platform.parse(platform), media_type).append([written], ConfigChanges(labels=labels or {}))


def multi_image(images: Iterable[Image], media_type: str = media_types.OCI_INDEX) -> ImageIndex:
    """Return an image index with these images."""
    images = tuple(images)
    manifests = [
        Descriptor(image.manifest.media_type, image.digest, len(image.manifest.raw), image.config.platform)
        for image in images
    ]
    return ImageIndex(IndexManifest.build(manifests, media_type=media_type), images)
