"""Deletion of mirrored images from a registry, except those that something else in it still needs."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from opmkit.core.errors import LimitExceeded
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import AuthenticationFailed, DeletesUnsupported, ImageToolsError, InvalidReference
from opmkit.imagetools.repository import digest_tag as artifact_tag
from opmkit.imagetools.spec import is_digest
from opmkit.supply.mirror.model import MirrorFailure, digest_tag, is_digest_tag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.reference import Reference
    from opmkit.supply.mirror.inventory import RepositoryInventory
    from opmkit.supply.mirror.model import MirrorRequest
    from opmkit.supply.mirror.target import MirrorTarget

DELETE, DELETED, KEPT, ABSENT = "delete", "deleted", "kept", "absent"
"""The states of an image: to be deleted, deleted, kept because something needs it, or not in the registry."""


class NeededImages(Struct, frozen=True):
    """The images that must not be deleted, each with a description of what needs it.

    Attributes:
        digests: Images by digest, whatever their repositories are.
        names: Images by repository, and in it by tag or digest.
    """

    digests: dict[str, str] = {}
    names: dict[str, dict[str, str]] = {}

    def add(self, image: Reference, reason: str, target: MirrorTarget) -> None:
        """Add an image as something refers to it: in the target under its name there, or directly."""
        if image.digest:
            self.digests.setdefault(image.digest, reason)
        names = {image.name}
        with suppress(InvalidReference):
            names.add(target.name(image))
        for name in names:
            identifiers = filter(None, (image.tag, image.digest))
            self.names.setdefault(name, {}).update(dict.fromkeys(identifiers, reason))


@dataclass(frozen=True, slots=True)
class ImageDeletion:
    """An image to delete, or one that is kept.

    Attributes:
        source: The reference that it was mirrored from.
        target: Its name and tag in the registry.
        digest: Its digest, "" if the registry lacks it.
        state: ``delete``, ``deleted``, ``kept`` or ``absent``.
        kept_for: What needs it, if it is kept.
        artifacts: The digests of its signatures, attestations and other artifacts, which are deleted before it.
        children: The digests of the images in it, which are deleted after it.
        is_catalog: Whether it is a catalog, which is deleted after all other images.
    """

    source: str
    target: str
    digest: str = ""
    state: str = DELETE
    kept_for: str = ""
    artifacts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    is_catalog: bool = False

    @property
    def repository(self) -> str:
        """Its repository in the registry."""
        return self.target.rpartition(":")[0]

    @property
    def manifests(self) -> tuple[str, ...]:
        """The digests of all manifests to delete, in this order."""
        return (*self.artifacts, self.digest, *self.children)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return {
            "source": self.source,
            "target": self.target,
            "digest": self.digest,
            "state": self.state,
            "kept_for": self.kept_for,
            "artifacts": list(self.artifacts),
            "children": list(self.children),
            "catalog": self.is_catalog,
        }


@dataclass(frozen=True, slots=True)
class MirrorDeletion:
    """The plan or the result of deleting mirrored images.

    Attributes:
        images: The images, each once.
        kept_catalogs: The catalogs that the registry keeps, whose images are not deleted, with their tags.
        failures: The images that could not be deleted.
    """

    images: tuple[ImageDeletion, ...] = ()
    kept_catalogs: tuple[str, ...] = ()
    failures: tuple[MirrorFailure, ...] = ()

    def in_state(self, state: str) -> tuple[ImageDeletion, ...]:
        """Return the images in a state."""
        return tuple(image for image in self.images if image.state == state)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types."""
        failures = [{"image": failure.image, **failure.error.to_dict()} for failure in self.failures]
        return {
            "images": [image.to_dict() for image in self.images],
            "kept_catalogs": list(self.kept_catalogs),
            "failures": failures,
        }


class _Part(Struct, frozen=True):
    """An image, or an image in it, with its artifacts, and the tags that are removed with them."""

    digest: str
    artifacts: tuple[str, ...]
    tags: frozenset[str]


class _Candidate(Struct, frozen=True):
    """An image that is to be deleted; its parts are itself and the images in it."""

    planned: ImageDeletion
    parts: tuple[_Part, ...]

    def without(self, kept: Collection[str]) -> ImageDeletion:
        """Return the plan for this image without the manifests that are kept."""
        parts = [part for part in self.parts if part.digest not in kept]
        artifacts = dict.fromkeys(each for part in parts for each in part.artifacts if each not in kept)
        children = tuple(part.digest for part in parts if part.digest != self.planned.digest)
        return replace(self.planned, artifacts=tuple(artifacts), children=children)


def plan_deletion(
    requests: Iterable[MirrorRequest],
    target: MirrorTarget,
    inventories: Mapping[str, RepositoryInventory],
    needed: NeededImages,
) -> list[ImageDeletion]:
    """Plan to delete images with their signatures and other artifacts, and with the images in indexes.

    An image is kept if it is needed, or if the registry has a tag for it, or for an index with it, that is not deleted
    as well. Tags that mirrors create for digests do not count.

    Args:
        requests: The images, as they were mirrored.
        target: The registry.
        inventories: The images of all repositories of the requests, by name.
        needed: Images to keep.
    """
    groups: dict[str, list[MirrorRequest]] = defaultdict(list)
    for request in requests:
        groups[target.name(request.target_name)].append(request)
    return [
        planned
        for name, group in groups.items()
        for planned in _RepositoryPlanner(inventories[name], needed).plan(group)
    ]


class _RepositoryPlanner:
    def __init__(self, inventory: RepositoryInventory, needed: NeededImages) -> None:
        self._inventory = inventory
        self._needed = needed
        self._has_api: bool | None = None

    def plan(self, requests: Sequence[MirrorRequest]) -> Iterator[ImageDeletion]:
        """Yield the plan for each requested image."""
        wanted: dict[str, list[MirrorRequest]] = defaultdict(list)
        for request in requests:
            tag = request.tag or ("" if request.reference.digest else request.reference.identifier)
            named = self._inventory.tags.get(tag)
            digest = request.reference.digest or (named.digest if named else "")
            if digest and self._inventory.find(digest):
                wanted[digest].append(request)
            else:
                yield replace(self._name(request, digest), digest="", state=ABSENT)
        candidates = {digest: self._candidate(digest, group) for digest, group in wanted.items()}
        parts: dict[str, _Part] = {}
        for part in (part for candidate in candidates.values() for part in candidate.parts):
            others = parts[part.digest].tags if part.digest in parts else frozenset()
            parts[part.digest] = structs.replace(part, tags=part.tags | others)
        reasons = self._reasons(parts.values())
        while kept := [digest for digest in parts if digest in reasons]:
            for digest in kept:
                del parts[digest]
            reasons = self._reasons(parts.values()) | reasons  # the tags of kept images can keep others
        for digest, candidate in candidates.items():
            if digest in reasons:
                yield replace(candidate.planned, state=KEPT, kept_for=reasons[digest])
            else:
                yield candidate.without(reasons)

    def _name(self, request: MirrorRequest, digest: str) -> ImageDeletion:
        tag = request.tag or (digest_tag(digest) if request.reference.digest else request.reference.identifier)
        if tag not in self._inventory.tags:
            tag = next(iter(self._tags(digest)), tag)
        return ImageDeletion(str(request.reference), f"{self._inventory.name}:{tag}", digest, is_catalog=request.last)

    def _candidate(self, digest: str, requests: Sequence[MirrorRequest]) -> _Candidate:
        requested = {request.tag or request.reference.identifier for request in requests}
        first, *children = [self._part(each) for each in self._inventory.tree(digest)]
        first = structs.replace(first, tags=first.tags | requested.intersection(self._tags(digest)))
        planned = replace(self._name(requests[0], digest), is_catalog=any(request.last for request in requests))
        return _Candidate(planned, (first, *children))

    def _part(self, digest: str) -> _Part:
        artifacts = tuple(dict.fromkeys(self._artifacts(digest)))
        start = artifact_tag(digest)
        tags = {tag for each in (digest, *artifacts) for tag in self._tags(each) if _stands_for(tag, each)}
        tags |= {tag for each in artifacts for tag in self._tags(each) if tag.partition(".")[0] == start}
        return _Part(digest, artifacts, frozenset(tags))

    def _tags(self, digest: str) -> Sequence[str]:
        return self._inventory.tags_of.get(digest, ())

    def _artifacts(self, digest: str) -> Iterator[str]:
        """Yield the artifacts of an image: what cosign's tags and the list of its referrers name, and the list."""
        start = artifact_tag(digest)
        for tag, image in self._inventory.tags.items():
            if tag.partition(".")[0] == start and image.digest != digest:
                yield image.digest
                yield from image.children if tag == start else ()
        if self._has_api is None:
            self._has_api = self._inventory.repository.has_referrers_api(digest)
        if self._has_api:
            for referrer in self._inventory.repository.referrers(digest):
                yield referrer.digest

    def _reasons(self, parts: Iterable[_Part]) -> dict[str, str]:
        """Return what needs each image of the repository if these parts of images are deleted."""
        inventory, removed = self._inventory, frozenset(tag for part in parts for tag in part.tags)
        reasons = {
            digest: self._needed.digests[digest] for digest in inventory.images if digest in self._needed.digests
        }
        for identifier, reason in self._needed.names.get(inventory.name, {}).items():
            image = inventory.find(identifier) if is_digest(identifier) else inventory.tags.get(identifier)
            if image:
                reasons.setdefault(image.digest, reason)
        for tag, image in inventory.tags.items():
            if tag not in removed:
                reasons.setdefault(image.digest, f"its tag {tag}")
        for digest, reason in list(reasons.items()):
            for child in inventory.tree(digest):
                reasons.setdefault(child, f"{digest}, which contains it: {reason}")
        return reasons


def _stands_for(tag: str, digest: str) -> bool:
    """Return whether a tag is one that a mirror created for a digest: ours, or that of oc-mirror."""
    name = digest.replace(":", "-")
    return tag in (name, replaced_tag(digest)) or (is_digest_tag(tag) and tag.endswith(name))


_REPLACED = "replaced-"


def replaced_tag(digest: str) -> str:
    """Return the tag by which a catalog that was replaced is found until what only it needs is deleted."""
    return f"{_REPLACED}{digest.replace(':', '-')}"


def is_replaced_tag(tag: str) -> bool:
    """Return whether a tag is one that `replaced_tag` returns."""
    return tag.startswith(f"{_REPLACED}sha256-")


def delete_images(
    plan: MirrorDeletion,
    inventories: Mapping[str, RepositoryInventory],
    *,
    workers: int,
    progress: Progress = NO_PROGRESS,
) -> MirrorDeletion:
    """Delete the images of a plan, the catalogs last, so that an interrupted deletion can be repeated.

    Catalogs are not deleted if another image could not be deleted.

    Raises:
        DeletesUnsupported: The registry does not delete images.
        AuthenticationFailed: The registry denies it.
    """
    planned = plan.in_state(DELETE)
    progress.begin("Deleting", len(planned), "images")
    done: dict[str, ImageDeletion] = {}
    failures: list[MirrorFailure] = []

    def delete(image: ImageDeletion) -> None:
        for digest in image.manifests:
            inventories[image.repository].repository.delete_manifest(digest)

    try:
        for is_catalog in (False, True):
            if failures:
                break
            with WorkerPool(workers, "delete") as pool:
                images = [image for image in planned if image.is_catalog is is_catalog]
                for image, future in [(image, pool.submit(delete, image)) for image in images]:
                    try:
                        future.result()
                    except (DeletesUnsupported, AuthenticationFailed):
                        raise
                    except (ImageToolsError, LimitExceeded) as error:
                        failures.append(MirrorFailure(image.target, error, is_target_error=True))
                    else:
                        done[image.target] = replace(image, state=DELETED)
                    progress.advance(1)
    finally:
        progress.end()
    return replace(plan, images=tuple(done.get(image.target, image) for image in plan.images), failures=tuple(failures))
