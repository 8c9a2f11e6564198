"""Requests, plans and reports of a mirror, and the names of mirrored images."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.core.errors import OpmkitError
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.spec import Descriptor, Platform

_MAX_USERS = 5
"""What needs an image, in messages."""


class MirrorRequest(Struct, frozen=True):
    """An image to mirror.

    Attributes:
        reference: Its source. A digest takes precedence over a tag.
        name: The name that its repository in the target is derived from; None for that of the source.
        needed_by: Descriptions of what needs the image, for messages about failures.
        tag: Its tag in the target. By default that of a source without a digest, else one derived from the digest, see
            `opmkit.supply.mirror.model.digest_tag`.
        last: Whether it is only copied after all others, because it refers to them.
        is_admitted: Whether it was found to satisfy the policy for signatures; what is attached to an image need not.
        attached_to: The digest of the image that it is a signature or another artifact of, "" for none.
    """

    reference: Reference
    needed_by: tuple[str, ...] = ()
    name: Reference | None = None
    tag: str = ""
    last: bool = False
    is_admitted: bool = False
    attached_to: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two requests one: the source, and the name in the target."""
        return self.reference, self.target_name.name, self.tag

    @property
    def target_name(self) -> Reference:
        """The name that its repository in the target is derived from."""
        return self.name or self.reference


def image_requests(
    reference: Reference, needed_by: tuple[str, ...], name: Reference | None = None, tag: str = ""
) -> Iterator[MirrorRequest]:
    """Yield the request for an image; two for a digest and a tag, since clusters may refer to it by either."""
    tag = tag or (reference.tag or "" if reference.digest else "")
    if reference.digest and tag:
        yield MirrorRequest(reference, needed_by, name)
    yield MirrorRequest(reference.with_default_tag(), needed_by, name, tag)


class PlannedManifest(Struct, frozen=True):
    """A manifest or index to copy, and the blobs that it refers to, without foreign layers."""

    digest: str
    size: int
    blobs: tuple[Descriptor, ...] = ()


class PlannedImage(Struct, frozen=True):
    """An image with its name in the target.

    Attributes:
        request: The request.
        digest: The digest of its manifest or index.
        tag: Its tag in the target.
        target: Its repository in the target, for messages.
        manifests: Its manifests, children before their index. Empty if the target has the image.
        missing: Bytes that the target lacks; None if that was not determined.
        is_partial: Whether platforms were selected, so that the target gets an index without some of its images.
        existing: The digests of its manifests that its repository in a registry has.
        replaces: The digest that its tag names in the target, "" if it does not exist.
    """

    request: MirrorRequest
    digest: str
    tag: str
    target: str
    manifests: tuple[PlannedManifest, ...] = ()
    missing: int | None = None
    is_partial: bool = False
    existing: tuple[str, ...] = ()
    replaces: str = ""

    @property
    def is_present(self) -> bool:
        """Whether the target has the image."""
        return not self.manifests

    @property
    def blobs(self) -> dict[str, Descriptor]:
        """The blobs of all manifests by digest."""
        return {blob.digest: blob for manifest in self.manifests for blob in manifest.blobs}

    @property
    def size(self) -> int:
        """Bytes of its manifests and blobs, each counted once; 0 if the target has the image."""
        return sum(manifest.size for manifest in self.manifests) + sum(blob.size for blob in self.blobs.values())


class MirrorFailure(Struct, frozen=True):
    """An image that cannot be mirrored.

    Attributes:
        image: Its source, as it was named.
        error: The cause.
        needed_by: What needs it.
        is_target_error: Whether it could be read, but not written.
    """

    image: str
    error: OpmkitError
    needed_by: tuple[str, ...] = ()
    is_target_error: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the cause, and below it what needs the image."""
        named = self.image in self.error.message
        yield self.error.message if named else f"{self.image}: {self.error.message}"
        for user in self.needed_by[:_MAX_USERS]:
            yield f"  needed by {user}"
        if len(self.needed_by) > _MAX_USERS:
            yield f"  needed by {len(self.needed_by) - _MAX_USERS} others"


class MirrorPlan(Struct, frozen=True):
    """The images of a mirror, in the order of the requests, and those that cannot be read or named in the target."""

    images: tuple[PlannedImage, ...]
    failures: tuple[MirrorFailure, ...] = ()

    def merge(self, other: MirrorPlan) -> MirrorPlan:
        """Return a plan with the images of both."""
        return MirrorPlan((*self.images, *other.images), (*self.failures, *other.failures))

    @property
    def absent(self) -> tuple[PlannedImage, ...]:
        """The images that the target lacks."""
        return tuple(image for image in self.images if not image.is_present)

    @property
    def present(self) -> tuple[PlannedImage, ...]:
        """The images that the target has."""
        return tuple(image for image in self.images if image.is_present)

    @property
    def size(self) -> int:
        """Bytes of the images that the target lacks; blobs and manifests that they share are counted once."""
        return total_size(self.absent)


class MirrorReport(Struct, frozen=True):
    """The result of a mirror.

    Attributes:
        copied: The images that were copied.
        present: The images that the target had before.
        failures: The images that could not be mirrored.
        transferred: Bytes of blobs that were read from the sources.
    """

    copied: tuple[PlannedImage, ...]
    present: tuple[PlannedImage, ...]
    failures: tuple[MirrorFailure, ...] = ()
    transferred: int = 0


def total_size(images: Iterable[PlannedImage]) -> int:
    """Return the bytes of the blobs and manifests of images, each digest counted once."""
    sizes: dict[str, int] = {}
    for image in images:
        for manifest in image.manifests:
            sizes[manifest.digest] = manifest.size
            sizes.update((blob.digest, blob.size) for blob in manifest.blobs)
    return sum(sizes.values())


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
