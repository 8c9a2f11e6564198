"""Names of mirrored images: repositories below a prefix, and tags for images that are only known by their digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.spec import Platform

_TAG_PREFIX = "mirrored-"
_MAX_TAG_LENGTH = 128


def digest_tag(digest: str, platforms: Sequence[Platform] = ()) -> str:
    """Return a tag for an image by its digest, ``mirrored-sha256-<hex>``: registries delete manifests without tags.

    It differs from ``sha256-<hex>``, with which OCI distribution-spec 1.1 tags lists of referrers and cosign begins the
    tags of signatures. An index that is copied without some of its images has another tag, so that the tag of a
    complete one implies that its images exist.

    Args:
        digest: The digest of the manifest or index.
        platforms: The selected platforms; none if the image is complete.
    """
    selection = ",".join(sorted(map(str, platforms)))
    part = f"{hashlib.sha256(selection.encode()).hexdigest()[:8]}-" if platforms else ""
    return f"{_TAG_PREFIX}{part}{digest.replace(':', '-')}"[:_MAX_TAG_LENGTH]


def is_digest_tag(tag: str) -> bool:
    """Return whether a tag is one that `digest_tag` returns."""
    return tag.startswith(_TAG_PREFIX)


def repository_below(prefix: str, source: Reference, max_components: int | None = None) -> str:
    """Return the repository for a source: its path without the registry, below ``prefix``, which may be "".

    Args:
        prefix: The first part of the repository's name.
        source: The source.
        max_components: The number of components that the target allows: further ones are joined by dashes.
    """
    components = [*prefix.split("/"), *source.repository.split("/")] if prefix else source.repository.split("/")
    if max_components is None or len(components) <= max_components:
        return "/".join(components)
    kept, joined = components[: max_components - 1], components[max_components - 1 :]
    return "/".join([*kept, "-".join(joined)])
