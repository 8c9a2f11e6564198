"""Search for blobs that can be mounted from other repositories of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.spec import IndexManifest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from opmkit.imagetools.reference import Reference
    from opmkit.supply.mirror.model import PlannedImage
    from opmkit.supply.mirror.target import MirrorTarget

_MAX_MANIFESTS = 16
"""Manifests of an index that are read."""


def find_mount_sources(
    present: Sequence[PlannedImage], target: MirrorTarget, wanted: Collection[str], pool: ThreadPoolExecutor
) -> dict[str, Reference]:
    """Return repositories of a target that have some of the ``wanted`` blobs, by digest, as names for the target.

    Only one image of each repository is read, since images of a repository usually share layers; a blob that is not
    found is transferred.
    """
    if not wanted:
        return {}
    chosen = {image.target: image for image in present}.values()
    futures = [(each, pool.submit(_wanted_blobs, target, each, wanted)) for each in chosen]
    return {digest: each.request.target_name for each, future in futures for digest in future.result()}


def _wanted_blobs(target: MirrorTarget, image: PlannedImage, wanted: Collection[str]) -> frozenset[str]:
    repository = target.repository(image.request.target_name)
    try:
        manifest = repository.get_manifest(image.digest)
        manifests = [manifest]
        if isinstance(manifest, IndexManifest):
            manifests = [repository.get_manifest(child.digest) for child in manifest.images[:_MAX_MANIFESTS]]
    except (ImageToolsError, LimitExceeded, DiskError):  # the images are only read to save transfers
        return frozenset()
    return frozenset(blob.digest for each in manifests for blob in each.children if blob.digest in wanted)
