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
from opmkit.imagetools.errors import AuthenticationFailed, DeletesUnsupported, ImageToolsError, NotFound
from opmkit.imagetools.repository import DIGEST_TAG
from opmkit.imagetools.repository import digest_tag as artifact_tag
from opmkit.imagetools.spec import is_digest
from opmkit.supply.mirror.model import MirrorFailure, is_digest_tag
from opmkit.supply.mirror.plan import resolve_in_target
from opmkit.supply.mirror.record import mark_repository

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.supply.mirror.inventory import InventoryImage, RepositoryInventory
    from opmkit.supply.mirror.record import ManifestName, RecordedImage

DELETE, DELETED, KEPT, UNRECORDED, ABSENT = "delete", "deleted", "kept", "unrecorded", "absent"
"""The states of an image: to be deleted, deleted, kept because something needs it, kept because no record of the
deleted catalog says that a mirror put it there, or not in the registry."""
NO_RECORD = "no record says that this was mirrored"


class NeededImages(Struct, frozen=True):
    """The images that must not be deleted, each with a description of what needs it.

    Attributes:
        digests: Images by digest, whatever their repositories are.
        manifests: Images by repository and digest.
        names: Images by the end of the name of their repository, in which slashes are dashes, and tag or digest; by the
            part of that end after the last dash.
    """

    digests: dict[str, str] = {}
    manifests: dict[ManifestName, str] = {}
    names: dict[str, dict[tuple[str, str], str]] = {}

    def add(self, repository: str, tag: str | None, digest: str | None, reason: str) -> None:
        """Add an image by tag or digest, as something refers to it.

        It is needed in all repositories whose names end with that of ``repository``: the prefix of a mirror is unknown,
        and so is whether it has joined components of the name by dashes.
        """
        if digest:
            self.digests.setdefault(digest, reason)
        end = repository.replace("/", "-")
        for identifier in filter(None, (tag, digest)):
            self.names.setdefault(end.rpartition("-")[2], {}).setdefault((end, identifier), reason)

    def add_recorded(self, image: RecordedImage, reason: str) -> None:
        """Add an image as a record lists it."""
        self.manifests.setdefault((image.repository, image.digest), reason)
        if not is_digest_tag(image.tag):
            self.add(image.repository, image.tag, None, reason)

    def update(self, other: NeededImages) -> None:
        """Add what ``other`` has; the descriptions that exist remain."""
        self.digests.update(other.digests | self.digests)
        self.manifests.update(other.manifests | self.manifests)
        for part, names in other.names.items():
            known = self.names.setdefault(part, {})
            known.update({name: reason for name, reason in names.items() if name not in known})

    def find(self, repository: str) -> dict[str, str]:
        """Return what needs the tags and digests in a repository that are needed by name."""
        name = f"-{repository.replace('/', '-')}"
        found: dict[str, str] = {}
        for (end, identifier), reason in self.names.get(name.rpartition("-")[2], {}).items():
            if name.endswith(f"-{end}"):
                found.setdefault(identifier, reason)
        return found

    def find_digest(self, repository: str, digest: str) -> str:
        """Return what needs a manifest, whatever its repository is, or in this one; "" for nothing."""
        return self.digests.get(digest) or self.manifests.get((repository, digest), "")


class Ownership(Struct, frozen=True):
    """What the records of a registry say that mirrors have put there.

    Attributes:
        manifests: The manifests that the registry lacked before.
        tags: Repository, tag and digest of the tags that did not name that digest before.
    """

    manifests: frozenset[ManifestName] = frozenset()
    tags: frozenset[tuple[str, str, str]] = frozenset()

    @classmethod
    def from_records(cls, inventories: Iterable[RepositoryInventory]) -> Ownership:
        """Collect what all records say."""
        images = [
            image
            for inventory in inventories
            for record in (inventory.records or {}).values()
            for image in record.images
        ]
        return cls(
            frozenset((image.repository, digest) for image in images for digest in image.put),
            frozenset((image.repository, image.tag, image.digest) for image in images if image.is_tag_set),
        )


class WantedDeletion(Struct, frozen=True):
    """An image that is to be deleted unless something needs it.

    Attributes:
        source: The reference that it was mirrored from.
        name: Its repository in the registry.
        tag: Its tag there.
        digest: Its digest, "" for what the tag names.
        is_catalog: Whether it is a catalog.
        is_recorded: Whether the record of what is deleted lists it.
    """

    source: str
    name: str
    tag: str
    digest: str = ""
    is_catalog: bool = False
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class ImageDeletion:
    """An image to delete, or one that is kept.

    Attributes:
        source: The reference that it was mirrored from.
        target: Its name and tag in the registry.
        digest: Its digest, "" if the registry lacks it.
        state: ``delete``, ``deleted``, ``kept``, ``unrecorded`` or ``absent``.
        kept_for: What needs it, if it is kept.
        artifacts: The digests of its signatures, attestations and other artifacts, which are deleted before it.
        children: The digests of the images in it, which are deleted after it.
        tags: The tags that are deleted with these.
        is_catalog: Whether it is a catalog, which is deleted after all other images.
    """

    source: str
    target: str
    digest: str = ""
    state: str = DELETE
    kept_for: str = ""
    artifacts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
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

    @property
    def manifests(self) -> tuple[str, ...]:
        return (self.digest, *self.artifacts)


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
    wanted: Iterable[WantedDeletion],
    inventories: Mapping[str, RepositoryInventory],
    needed: NeededImages,
    ownership: Ownership | None,
) -> list[ImageDeletion]:
    """Plan to delete images with their signatures and other artifacts, and with the images in indexes.

    An image is kept if it is needed, or if the registry has a tag for it, or for an index with it, that is not deleted
    as well, or if it belongs to an image that is kept.

    Args:
        wanted: The images.
        inventories: The repositories of all of them, by name.
        needed: Images to keep.
        ownership: What the records say: only manifests and tags that a mirror has put are deleted. Without it, all are,
            and the tags that mirrors create for digests do not count.
    """
    groups: dict[str, list[WantedDeletion]] = defaultdict(list)
    for each in wanted:
        groups[each.name].append(each)
    return [
        planned
        for name, group in groups.items()
        for planned in _RepositoryPlanner(inventories[name], needed, ownership).plan(group)
    ]


class _RepositoryPlanner:
    def __init__(self, inventory: RepositoryInventory, needed: NeededImages, ownership: Ownership | None) -> None:
        self._inventory = inventory
        self._needed = needed
        self._ownership = ownership
        self._needed_here = needed.find(inventory.path)
        self._recorded: set[str] = set()
        self._has_api: bool | None = None
        self._attached: dict[str, dict[str, None]] = defaultdict(dict)
        """The artifacts of images by the digests of these."""
        self._lists: dict[str, InventoryImage] = {}
        """The lists of referrers by the digests of the images that they belong to."""
        for tag, image in inventory.tags.items():
            owner = f"sha256:{tag[7:71]}" if DIGEST_TAG.fullmatch(tag) else ""
            if owner and tag == artifact_tag(owner) and image.children and image.digest != owner:
                self._lists[owner] = image
            elif owner and image.digest != owner:
                self._attached[owner][image.digest] = None
            if image.subject:
                self._attached[image.subject][image.digest] = None

    def plan(self, wanted: Sequence[WantedDeletion]) -> Iterator[ImageDeletion]:
        """Yield the plan for each wanted image; artifacts of others are planned with these."""
        groups: dict[str, list[WantedDeletion]] = defaultdict(list)
        for each in wanted:
            named = self._inventory.tags.get(each.tag)
            digest = each.digest or (named.digest if named else "")
            if digest and self._inventory.find(digest):
                groups[digest].append(each)
            else:
                yield replace(self._name(each, digest), digest="", state=ABSENT)
        recorded = [digest for digest, group in groups.items() if any(each.is_recorded for each in group)]
        self._recorded = {each for digest in recorded for each in self._inventory.tree(digest)}
        self._recorded.update([artifact for each in self._recorded for artifact in self._attached.get(each, ())])
        candidates = {digest: self._candidate(digest, group) for digest, group in groups.items()}
        attached = {each for candidate in candidates.values() for part in candidate.parts for each in part.artifacts}
        candidates = {digest: each for digest, each in candidates.items() if digest not in attached}
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
                planned = candidate.without(reasons)
                tags = tuple(tag for each in planned.manifests for tag in self._tags(each))
                yield replace(planned, tags=tags)

    def _name(self, wanted: WantedDeletion, digest: str) -> ImageDeletion:
        tag = wanted.tag
        if tag not in self._inventory.tags:
            tag = next(iter(self._tags(digest)), tag)
        return ImageDeletion(wanted.source, f"{self._inventory.name}:{tag}", digest, is_catalog=wanted.is_catalog)

    def _candidate(self, digest: str, wanted: Sequence[WantedDeletion]) -> _Candidate:
        found = [each for each in self._inventory.tree(digest) if self._inventory.find(each)]
        first, *children = map(self._part, found)
        if self._ownership is None:
            requested = {each.tag for each in wanted}
            first = structs.replace(first, tags=first.tags | requested.intersection(self._tags(digest)))
        planned = replace(self._name(wanted[0], digest), is_catalog=any(each.is_catalog for each in wanted))
        return _Candidate(planned, (first, *children))

    def _part(self, digest: str) -> _Part:
        artifacts = tuple(dict.fromkeys(self._artifacts(digest)))
        if self._ownership is not None:
            tags = {tag for each in (digest, *artifacts) for tag in self._tags(each) if self._is_own_tag(tag, each)}
            return _Part(digest, artifacts, frozenset(tags))
        start = artifact_tag(digest)
        tags = {tag for each in (digest, *artifacts) for tag in self._tags(each) if _stands_for(tag, each)}
        tags |= {tag for each in artifacts for tag in self._tags(each) if tag.partition(".")[0] == start}
        return _Part(digest, artifacts, frozenset(tags))

    def _tags(self, digest: str) -> Sequence[str]:
        return self._inventory.tags_of.get(digest, ())

    def _artifacts(self, digest: str) -> Iterator[str]:
        """Yield the artifacts of an image: what cosign's tags and the list of its referrers name, and the list."""
        yield from self._attached.get(digest, ())
        if listed := self._lists.get(digest):
            yield listed.digest
            yield from listed.children
        if self._ownership is not None:  # what mirrors have put has a tag
            return
        if self._has_api is None:
            self._has_api = self._inventory.repository.has_referrers_api(digest)
        if self._has_api:
            for referrer in self._inventory.repository.referrers(digest):
                yield referrer.digest

    def _is_own(self, digest: str) -> bool:
        """Return whether the record of what is deleted lists a manifest, and a record says that a mirror put it."""
        if self._ownership is None:
            return True
        own = (self._inventory.path, digest) in self._ownership.manifests
        return (own and digest in self._recorded) or self._is_own_list(digest)

    def _is_own_tag(self, tag: str, digest: str) -> bool:
        own = self._ownership is not None and (self._inventory.path, tag, digest) in self._ownership.tags
        return own or (DIGEST_TAG.fullmatch(tag) is not None and self._is_own_list(digest))

    def _is_own_list(self, digest: str) -> bool:
        """Return whether this is a list of referrers, all of which mirrors have put: these add them to the list."""
        return any(
            each.digest == digest and all(self._is_own(child) for child in each.children)
            for each in self._lists.values()
        )

    def _reasons(self, parts: Iterable[_Part]) -> dict[str, str]:
        """Return what needs each image of the repository if these parts of images are deleted."""
        inventory = self._inventory
        parts = tuple(parts)
        removed = frozenset(tag for part in parts for tag in part.tags)
        known = dict.fromkeys((*inventory.images, *(digest for part in parts for digest in part.manifests)))
        reasons: dict[str, str] = {}
        for identifier, reason in self._needed_here.items():
            image = inventory.find(identifier) if is_digest(identifier) else inventory.tags.get(identifier)
            if image:
                reasons.setdefault(image.digest, reason)
        for digest in known:
            if reason := self._needed.find_digest(inventory.path, digest):
                reasons.setdefault(digest, reason)
        for tag, image in inventory.tags.items():
            if tag not in removed:
                reasons.setdefault(image.digest, f"its tag {tag}")
        for digest in known:
            if not self._is_own(digest):
                reasons.setdefault(digest, NO_RECORD)
        return self._with_dependents(reasons)

    def _with_dependents(self, reasons: dict[str, str]) -> dict[str, str]:
        """Return the reasons with the images in kept indexes, and the artifacts of kept images."""
        pending = list(reasons)
        while pending:
            digest = pending.pop()
            reason = reasons[digest]
            dependents = dict.fromkeys(self._inventory.tree(digest), "which contains it")
            for artifact in self._attached.get(digest, ()):
                dependents.setdefault(artifact, "which it belongs to")
            for dependent, relation in dependents.items():
                if dependent not in reasons:
                    reasons[dependent] = f"{digest}, {relation}: {reason}"
                    pending.append(dependent)
        return reasons


def _stands_for(tag: str, digest: str) -> bool:
    """Return whether a tag is one that a mirror created for a digest: ours, or that of oc-mirror."""
    name = digest.replace(":", "-")
    return tag in (name, f"replaced-{name}") or (is_digest_tag(tag) and tag.endswith(name))


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
    _mark_emptied(planned, inventories)
    progress.begin("Deleting", len(planned), "images")
    deleter = _Deleter(inventories)
    done: dict[tuple[str, str], ImageDeletion] = {}
    failures: list[MirrorFailure] = []
    try:
        for is_catalog in (False, True):
            if failures:
                break
            with WorkerPool(workers, "delete") as pool:
                images = [image for image in planned if image.is_catalog is is_catalog]
                for image, future in [(image, pool.submit(deleter.delete, image)) for image in images]:
                    try:
                        future.result()
                    except (DeletesUnsupported, AuthenticationFailed):
                        raise
                    except (ImageToolsError, LimitExceeded) as error:
                        failures.append(MirrorFailure(image.target, error, is_target_error=True))
                    else:
                        done[image.target, image.digest] = replace(image, state=DELETED)
                    progress.advance(1)
    finally:
        progress.end()
    result = tuple(done.get((image.target, image.digest), image) for image in plan.images)
    return replace(plan, images=result, failures=tuple(failures))


class _Deleter:
    """Deletes images. Some registries keep the tags of a deleted manifest, and the content under them."""

    def __init__(self, inventories: Mapping[str, RepositoryInventory]) -> None:
        self._inventories = inventories
        self._keeps_tags: bool | None = None

    def delete(self, image: ImageDeletion) -> None:
        """Delete the manifests of an image with their tags, and verify that the registry has done so."""
        repository = self._inventories[image.repository].repository
        for digest in image.manifests:
            repository.delete_manifest(digest)
        if image.tags and self._keeps_tags is None:
            self._keeps_tags = resolve_in_target(repository, image.tags[0]) in image.manifests
        for tag in image.tags if self._keeps_tags else ():
            if resolve_in_target(repository, tag) in image.manifests:  # it may name another image since
                repository.delete_tag(tag)
        for digest in image.manifests:
            with suppress(NotFound):
                repository.resolve(digest)
                raise ImageToolsError(
                    f"{image.repository}@{digest}: the registry accepted to delete it, but still has it",
                    hint="check whether the registry protects its images, and run the command again",
                )


def _mark_emptied(planned: Iterable[ImageDeletion], inventories: Mapping[str, RepositoryInventory]) -> None:
    """Mark the repositories in which no tag remains, so that the next search knows that this is right."""
    removed: dict[str, set[str]] = defaultdict(set)
    for image in planned:
        removed[image.repository].update(image.tags)
    for name, tags in removed.items():
        inventory = inventories[name]
        if inventory.records is None and tags.issuperset(inventory.tags):
            mark_repository(inventory.repository)
