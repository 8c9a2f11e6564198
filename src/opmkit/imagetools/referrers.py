"""Referrers: artifacts such as signatures that name an image as their subject (OCI distribution-spec 1.1)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, check_digest
from opmkit.imagetools.tag_update import update_tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.imagetools.repository import Repository

DIGEST_TAG = re.compile(r"sha256-[a-f0-9]{64}(\.[a-z]+)?")
"""Tags that stand for a digest: of indexes of referrers, and those in which cosign stores signatures."""
MAX_REFERRERS = 1 << 14
"""Referrers of one image."""


def digest_tag(digest: str, suffix: str = "") -> str:
    """Return the tag that stands for a digest, such as ``sha256-<hex>`` or ``sha256-<hex>.sig``.

    Without a suffix it names the index of referrers in registries that lack the referrers API.
    """
    return f"{check_digest(digest).replace(':', '-')}{suffix}"


def referrer_descriptor(manifest: Manifest | IndexManifest) -> Descriptor:
    """Return the descriptor that lists of referrers contain for an artifact."""
    artifact_type = manifest.artifact_type
    if not artifact_type and isinstance(manifest, Manifest):
        artifact_type = manifest.config.media_type
    return replace(manifest.descriptor, annotations=manifest.annotations, artifact_type=artifact_type)


def select_referrers(referrers: Iterable[Descriptor], artifact_type: str = "") -> tuple[Descriptor, ...]:
    """Return the descriptors of an artifact type ("" for all), each once."""
    unique = {referrer.digest: referrer for referrer in referrers}
    return tuple(item for item in unique.values() if artifact_type in ("", item.artifact_type))


def add_to_fallback_tag(repository: Repository, manifest: Manifest | IndexManifest) -> None:
    """List an artifact in the index that the tag of its subject's digest names.

    Registries without the referrers API require this of every client that stores an artifact.

    Raises:
        InvalidImage: The tag names something else than an index.
        TagMoved: Other writers keep moving the tag.
    """
    if manifest.subject is None:
        return
    tag, descriptor = digest_tag(manifest.subject.digest), referrer_descriptor(manifest)

    def add(current: Manifest | IndexManifest | None) -> IndexManifest:
        if isinstance(current, Manifest):
            raise InvalidImage(
                f"tag {tag}: invalid list of referrers: expected an image index", hint="delete the tag, and try again"
            )
        listed = current.manifests if current else ()
        if current and any(item.digest == descriptor.digest for item in listed):
            return current
        return IndexManifest.build([*listed, descriptor], current.annotations if current else None)

    update_tag(repository, tag, add)
