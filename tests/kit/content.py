"""Small images for tests of registries, pushed blob by blob."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

from opmkit.imagetools.spec import Descriptor, Manifest, media_types, sha256_digest

if TYPE_CHECKING:
    from opmkit.imagetools.repository import Repository

CONFIG = b'{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'


def noise(size: int, seed: int = 0) -> bytes:
    """Return incompressible bytes, the same for each seed."""
    return random.Random(seed).randbytes(size)


def described(data: bytes, media_type: str = media_types.OCI_LAYER) -> Descriptor:
    return Descriptor(media_type, sha256_digest(data), len(data))


def put(repository: Repository, data: bytes, media_type: str = media_types.OCI_LAYER) -> Descriptor:
    """Push a blob and return its descriptor."""
    descriptor = described(data, media_type)
    repository.put_blob(descriptor, lambda: io.BytesIO(data))
    return descriptor


def put_image(repository: Repository, tag: str, *layers: bytes) -> Manifest:
    """Push and tag an image with these blobs as layers, which need not be archives."""
    config = put(repository, CONFIG, media_types.OCI_CONFIG)
    manifest = Manifest.build(config, [put(repository, layer) for layer in layers])
    repository.put_manifest(manifest, tag)
    return manifest
