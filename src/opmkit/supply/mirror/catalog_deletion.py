"""Deletion of mirrored catalogs with the images that no other catalog needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import ImageToolsError, InvalidReference, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.supply.mirror.catalog import CatalogSelection, MirrorCatalog, open_catalog
from opmkit.supply.mirror.charts import read_charts
from opmkit.supply.mirror.deletion import (
    ABSENT,
    DELETE,
    DELETED,
    KEPT,
    UNRECORDED,
    MirrorDeletion,
    NeededImages,
    Ownership,
    WantedDeletion,
    delete_images,
    plan_deletion,
)
from opmkit.supply.mirror.image_set import ImageSet
from opmkit.supply.mirror.inventory import (
    IncompleteSearch,
    check_listing,
    list_repositories,
    read_outside,
    read_repositories,
)
from opmkit.supply.mirror.locations import RegistryTarget
from opmkit.supply.mirror.mirror import MirrorContent, find_images
from opmkit.supply.mirror.model import digest_tag, is_digest_tag
from opmkit.supply.mirror.plan import resolve_in_target
from opmkit.supply.mirror.record import MirrorRecord, catalog_subject, list_subject, update_record
from opmkit.supply.mirror.recording import configuration_key, list_home
from opmkit.supply.mirror.stored_catalogs import StoredCatalogs
from opmkit.supply.mirror.target import parse_name_in_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse
    from opmkit.supply.mirror.deletion import ImageDeletion
    from opmkit.supply.mirror.image_set import BlockedImages
    from opmkit.supply.mirror.inventory import InventoryImage, RepositoryInventory
    from opmkit.supply.mirror.model import MirrorRequest
    from opmkit.supply.mirror.target import RegistryLocation


@dataclass(frozen=True, slots=True)
class DeletionOptions:
    """Options of deleting mirrored images.

    Attributes:
        keep: Indexes whose images are kept, in addition to the catalogs of the registry.
        search: Whether to look for catalogs in all repositories of the target. Otherwise only the catalogs in the
            repositories of the deleted images, and those of ``keep``, are known.
        max_nested_paths: Components of a repository name in the target, as when it was mirrored; None for any number.
        workers: Requests at the same time.
        unrecorded: Whether to delete images, too, of which no record in the registry says that a mirror has put them.
    """

    keep: tuple[str, ...] = ()
    search: bool = True
    max_nested_paths: int | None = None
    workers: int = 8
    unrecorded: bool = False


class RecordName(NamedTuple):
    """A record by its repository and its subject."""

    repository: str
    subject: str


class DeletedContent(Struct, frozen=True):
    """The mirrored content to delete.

    Attributes:
        catalogs: The catalogs by their names in the target, each with a tag or a digest.
        requests: Other images, as they were mirrored, each with the record that lists it.
        lists: The records of lists of images, all of which are deleted.
        configurations: The keys of the configuration that is deleted; none to delete catalogs by their names.
        blocked: The images of the catalogs that were not mirrored; None for none.
    """

    catalogs: tuple[Reference, ...] = ()
    requests: tuple[tuple[MirrorRequest, RecordName], ...] = ()
    lists: tuple[RecordName, ...] = ()
    configurations: frozenset[str] = frozenset()
    blocked: BlockedImages | None = None


class _StoredCatalog(NamedTuple):
    """A catalog in the target by its repository and digest, which is "" if the target lacks it."""

    repository: str
    digest: str


class CatalogDeletion:
    """The deletion of catalogs and other images from one registry."""

    def __init__(
        self,
        tool: RegistryTool,
        client: RegistryClient,
        location: RegistryLocation,
        options: DeletionOptions,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        """Use ``tool`` to read catalogs, and ``client`` for the registry."""
        self._target = RegistryTarget(client, location, max_components=options.max_nested_paths)
        self._inventories: dict[str, RepositoryInventory] = {}
        self._outside: dict[str, RepositoryInventory] = {}
        """Repositories outside of the prefix. Their catalogs and records only show what is needed."""
        self._stored = StoredCatalogs(tool)
        self._tool = tool
        self._client = client
        self._location = location
        self._options = options
        self._progress = progress

    def find(self, name: str) -> Reference:
        """Return a catalog of the target by the name of its source, or by its name in the target.

        Raises:
            InvalidReference: The name is invalid, or means two catalogs.
            NotFound: The target has no such catalog, and no record of one or of what is left of it.
        """
        mirrored = Reference.parse(name).with_default_tag()
        candidates = [mirrored]
        if name.startswith(self._location.start):
            candidates.append(parse_name_in_target(name, self._location).with_default_tag())
        named = list(dict.fromkeys(self._in_target(each) for each in candidates))
        found = [each for each in named if self._lookup(each).digest or self._record(each) != MirrorRecord()]
        if not found:
            looked_for = " or ".join(map(str, named))
            raise NotFound(f"{name}: the target has no {looked_for}", hint="check the name, and the target")
        if len(found) > 1:
            hint = f"write the name in the target: {found[0]}, or mirror to another prefix"
            raise InvalidReference(f"{name}: means {found[0]} or {found[1]}", hint=hint)
        return found[0]

    def open(self, content: Sequence[str] | ImageSet) -> PlannedDeletion:
        """Plan to delete catalogs by their names, or what an image set describes; see `find` and `plan`."""
        if isinstance(content, ImageSet):
            return self.plan(self.content(content))
        return self.plan(DeletedContent(tuple(dict.fromkeys(map(self.find, content)))))

    def open_replaced(self, catalogs: Mapping[Reference, str], needed: NeededImages) -> PlannedDeletion:
        """Plan to delete what only replaced versions of catalogs need.

        Args:
            catalogs: The digests of the new versions by their names and tags in the target.
            needed: Further images to keep.
        """
        released: dict[RecordName, frozenset[str]] = {}
        for catalog, digest in catalogs.items():
            record = self._record(catalog)
            versions = (
                record.versions[: record.versions.index(digest)] if digest in record.versions else record.versions
            )
            released[RecordName(catalog.name, catalog_subject(str(catalog.tag)))] = frozenset(versions)
        return self._plan_released(DeletedContent(), released, needed)

    def content(self, image_set: ImageSet) -> DeletedContent:
        """Return the mirrored content that an image set describes.

        Of a catalog with packages, the bundles that they select are read from the source. The catalog in the target
        is deleted only if all of it is. Additional images and those of charts are those of a mirror with the same
        ones, and with the same catalogs.

        Raises:
            CatalogError: A catalog in the source is invalid, or lacks a package or channel; or a chart is invalid.
            ImageToolsError: It cannot be read.
        """
        catalogs: list[Reference] = []
        requests: list[tuple[MirrorRequest, RecordName]] = []
        names: list[tuple[Reference, str]] = []
        whole: list[tuple[Reference, str]] = []
        for entry, (index, selection) in zip(image_set.catalogs, image_set.selections(CatalogSelection()), strict=True):
            source = entry.name or Reference.parse(index)
            name = self._in_target(source)
            name = name.with_tag(entry.tag) if entry.tag else name
            names.append((source, entry.tag))
            if image_set.is_deletion and entry.selection is not None and entry.selection.packages:
                with open_catalog(self._tool, index, selection) as opened:
                    found, _ = find_images([opened], MirrorContent((), (), image_set.blocked), self._target)
                record = RecordName(name.name, catalog_subject(name.tag or digest_tag(name.identifier)))
                requests += [(request, record) for request in found]
            else:
                whole.append((source, entry.tag))
                catalogs.append(name)
        others = [*image_set.images, *read_charts(image_set.charts).requests]
        lists = [self._list(each, others) for each in (names, whole)] if others else []
        listed, _ = find_images([], MirrorContent((), tuple(others), image_set.blocked), self._target)
        requests += [(request, next(filter(self._has_record, lists), lists[0])) for request in listed]
        keys = frozenset(configuration_key(each, others) for each in (names, whole))
        return DeletedContent(tuple(catalogs), tuple(requests), tuple(lists), keys, image_set.blocked)

    def plan(self, content: DeletedContent, needed: NeededImages | None = None) -> PlannedDeletion:
        """Plan to delete catalogs with the images that only they need, and other images.

        Args:
            content: The content to delete.
            needed: Further images to keep.

        Raises:
            IncompleteSearch: The registry does not list its repositories.
            CatalogError: A catalog that is deleted or kept cannot be read.
            ImageToolsError: The registry cannot be read.
        """
        released = {name: frozenset(self._records(name).versions) for name in content.lists}
        for catalog in content.catalogs:
            for name, versions in self._versions(catalog).items():
                others = set(self._records(name).configurations).difference(content.configurations)
                if not (content.configurations and others):
                    released[name] = released.get(name, frozenset()) | versions
        return self._plan_released(content, released, needed or NeededImages())

    def _plan_released(
        self, content: DeletedContent, released: Mapping[RecordName, frozenset[str]], needed: NeededImages
    ) -> PlannedDeletion:
        """Plan to delete content, and what the released versions of records list."""
        if self._options.search:
            listed = list_repositories(self._client, self._location)
            self._read(listed.below)
            self._read(self._recorded_repositories())
            check_listing(self._location, listed.below, self._inventories)
            self._outside = read_outside(self._client, self._location, listed.outside, workers=self._options.workers)
        wanted = [*self._released_images(released), *self._content_images(content, released)]
        self._read(each.name for each in wanted)
        self._check_listed(wanted)
        needed = self._needed(content, released, needed)
        ownership = Ownership.from_records(self._inventories.values())
        result = self._plan(wanted, needed, None if self._options.unrecorded else ownership)
        unowned = self._plan(wanted, needed, None) if not self._options.unrecorded else result
        possible = {each.target for each in unowned.images if each.state == DELETE}
        images = tuple(
            replace(each, state=UNRECORDED) if each.state == KEPT and each.target in possible else each
            for each in result.images
        )
        named = frozenset(name for catalog in content.catalogs for name in self._versions(catalog))
        return PlannedDeletion(self, replace(result, images=images), released, named, content.configurations)

    def _check_listed(self, wanted: Iterable[WantedDeletion]) -> None:
        """Raise IncompleteSearch if a list of tags omits one that an image has: it may omit others as well."""
        omitted = [each for each in wanted if each.tag and each.tag not in self._inventories[each.name].tags]

        def resolve(each: WantedDeletion) -> str:
            return resolve_in_target(self._inventories[each.name].repository, each.tag)

        with WorkerPool(self._options.workers, "omitted tags") as pool:
            for each, digest in zip(omitted, pool.map(resolve, omitted), strict=True):
                if digest:
                    raise IncompleteSearch(f"{each.name}: the registry does not list all tags: it omits {each.tag}")

    def _recorded_repositories(self) -> Iterator[str]:
        """Yield the repositories below the prefix that have images according to the records."""
        for inventory in tuple(self._inventories.values()):
            for record in (inventory.records or {}).values():
                for image in record.images:
                    name = f"{self._location.registry}/{image.repository}"
                    if name.startswith(self._location.start):
                        yield name

    def _plan(
        self, wanted: Sequence[WantedDeletion], needed: NeededImages, ownership: Ownership | None
    ) -> MirrorDeletion:
        """Plan with all catalogs that remain: those that are not deleted, and those that cannot be."""
        deleted = {(each.name, self._digest(each)) for each in wanted if each.is_catalog}
        while True:
            kept = self._kept_catalogs(deleted)
            all_needed = NeededImages()
            for label, (inventory, digest) in kept.items():
                self._add_needed(all_needed, label, self._stored.images(inventory, digest))
            for text in self._options.keep:
                self._add_needed(all_needed, text, self._stored.index_images(text))
            all_needed.update(needed)
            images = plan_deletion(wanted, self._inventories, all_needed, ownership)
            remaining = {(each.repository, each.digest) for each in images if each.is_catalog and each.state == KEPT}
            if not deleted & remaining:
                return MirrorDeletion(tuple(sorted(images, key=lambda each: each.is_catalog)), tuple(kept))
            deleted -= remaining

    def _digest(self, wanted: WantedDeletion) -> str:
        named = self._inventories[wanted.name].tags.get(wanted.tag)
        return wanted.digest or (named.digest if named else "")

    def _released_images(self, released: Mapping[RecordName, frozenset[str]]) -> Iterator[WantedDeletion]:
        """Yield the images that only the released versions of a record need, and what is left of earlier ones.

        A mirror only puts images below the prefix: others in a record are ignored.
        """
        for name, versions in released.items():
            record = self._records(name)
            home = self._inventories[name.repository].path
            for image in record.images:
                repository = f"{self._location.registry}/{image.repository}"
                if versions.issuperset(image.versions) and repository.startswith(self._location.start):
                    is_catalog = image.repository == home and image.digest in record.versions
                    yield WantedDeletion(
                        image.source, repository, image.tag, image.digest, is_catalog=is_catalog, is_recorded=True
                    )

    def _content_images(
        self, content: DeletedContent, released: Mapping[RecordName, frozenset[str]]
    ) -> Iterator[WantedDeletion]:
        """Yield the images that are named by content of which no record is released."""
        for catalog in content.catalogs:
            stored = self._lookup(catalog)
            versions = frozenset().union(*(released.get(name, frozenset()) for name in self._versions(catalog)))
            if stored.digest and stored.digest in versions:
                continue
            source = str(parse_name_in_target(catalog.name, self._location))
            if stored.digest:
                inventory = self._inventories[stored.repository]
                image = inventory.find(stored.digest)
                if image and not self._stored.is_catalog(inventory, image):
                    raise CatalogError(f"{catalog}: not an index image", hint="check the name")
                uses = self._stored.images(inventory, stored.digest)
                opened = MirrorCatalog(catalog, catalog.identifier, uses)
                requests, _ = find_images([opened], MirrorContent((), (), content.blocked), self._target)
                yield from (each for request in requests for each in self._wanted(request))
            elif versions:
                continue
            yield WantedDeletion(source, catalog.name, catalog.tag or "", stored.digest, is_catalog=True)
        for request, name in content.requests:
            known = {(each.repository, each.digest) for each in self._records(name).images}
            for each in self._wanted(request):
                self._read([each.name])
                is_recorded = (each.name.partition("/")[2], self._digest(each)) in known
                yield structs.replace(each, is_recorded=is_recorded)

    def _wanted(self, request: MirrorRequest) -> Iterator[WantedDeletion]:
        try:
            name = self._target.name(request.target_name)
        except InvalidReference:  # it was not mirrored
            return
        reference = request.reference
        default = digest_tag(reference.digest) if reference.digest else reference.identifier
        yield WantedDeletion(str(reference), name, request.tag or default, reference.digest or "")

    def _needed(
        self, content: DeletedContent, released: Mapping[RecordName, frozenset[str]], needed: NeededImages
    ) -> NeededImages:
        """Return what the versions of all records need that are not released, in addition to ``needed``."""
        found = NeededImages()
        found.update(needed)
        for inventory in (*self._inventories.values(), *self._outside.values()):
            for subject, record in (inventory.records or {}).items():
                kind, _, tag = subject.partition(":")
                current = inventory.tags.get(tag) if kind == "catalog" else None
                active = set(record.active(current.digest if current else ""))
                active -= released.get(RecordName(inventory.name, subject), frozenset())
                reason = f"{inventory.name}:{tag}" if kind == "catalog" else f"images of the configuration {tag}"
                for image in record.images:
                    if not active.isdisjoint(image.versions):
                        found.add_recorded(image, f"{reason}, by its record")
        found.update(self._needed_outside)
        return found

    @cached_property
    def _needed_outside(self) -> NeededImages:
        """The images below the prefix that catalogs outside of it name, as far as these can be read.

        They name images of any source as well, which other mirrors have put below prefixes of their own.
        """
        found = NeededImages()
        images = [(each, tag) for each in self._outside.values() for tag in each.tags]
        with WorkerPool(self._options.workers, "outside") as pool:
            for (inventory, tag), uses in zip(images, pool.map(self._outside_uses, images), strict=True):
                self._add_needed(found, f"{inventory.name}:{tag}", uses)
        return found

    def _outside_uses(self, named: tuple[RepositoryInventory, str]) -> list[ImageUse]:
        """Return the images below the prefix that a catalog names; none if it is no catalog, or cannot be read."""
        inventory, tag = named
        image = inventory.tags[tag]
        try:
            if not self._stored.is_catalog(inventory, image, search=False):
                return []
            uses = self._stored.images(inventory, image.digest)
        except (CatalogError, ImageToolsError) as error:
            if isinstance(error, RegistryUnavailable) or isinstance(error.__cause__, RegistryUnavailable):
                raise
            return []
        return [each for each in uses if each.image.partition("/")[2].startswith(f"{self._location.prefix}/")]

    def _kept_catalogs(self, deleted: Collection[tuple[str, str]]) -> dict[str, tuple[RepositoryInventory, str]]:
        """Return the other catalogs of the target by their names with a tag."""
        images = [
            (f"{name}:{tag}", inventory, image)
            for name, inventory in self._inventories.items()
            for tag, image in inventory.tags.items()
            if (name, image.digest) not in deleted and not tag.startswith("replaced-sha256-")
        ]
        with WorkerPool(self._options.workers, "catalogs") as pool:
            checks = list(pool.map(lambda each: self._is_catalog(each[1], each[2]), images))
        found: dict[tuple[str, str], tuple[str, RepositoryInventory]] = {}
        for (label, inventory, image), is_catalog in zip(images, checks, strict=True):
            if is_catalog:
                found.setdefault((inventory.name, image.digest), (label, inventory))
        return {label: (inventory, digest) for (_, digest), (label, inventory) in found.items()}

    def _is_catalog(self, inventory: RepositoryInventory, image: InventoryImage) -> bool:
        """Return whether an image is a catalog, which need not be looked for in what mirrors have put for catalogs."""
        tags = inventory.tags_of[image.digest]
        if all((inventory.path, tag, image.digest) in self._bundle_tags for tag in tags):
            return False
        return self._stored.is_catalog(inventory, image, search=not all(map(is_digest_tag, tags)))

    def _add_needed(self, needed: NeededImages, catalog: str, uses: Iterable[ImageUse]) -> None:
        for use in uses:
            try:
                image = Reference.parse(use.image).with_default_tag()
            except InvalidReference as error:
                message = f"{catalog}: cannot tell which images the catalog needs: bundle {use.bundle}: {error.message}"
                raise CatalogError(message, hint="correct the catalog, and push or mirror it again") from error
            needed.add(image.repository, image.tag, image.digest, f"{catalog}, bundle {use.bundle}")

    def _versions(self, catalog: Reference) -> dict[RecordName, frozenset[str]]:
        """Return the records of a catalog with their versions: all for a tag, one for a digest."""
        if catalog.tag:
            name = RecordName(catalog.name, catalog_subject(catalog.tag))
            return {name: frozenset(self._records(name).versions)}
        self._read([catalog.name])
        records = self._inventories[catalog.name].records or {}
        return {
            RecordName(catalog.name, subject): frozenset({str(catalog.digest)})
            for subject, record in records.items()
            if catalog.digest in record.versions
        }

    def _record(self, catalog: Reference) -> MirrorRecord:
        return next((self._records(name) for name in self._versions(catalog)), MirrorRecord())

    def _records(self, name: RecordName) -> MirrorRecord:
        self._read([name.repository])
        return (self._inventories[name.repository].records or {}).get(name.subject, MirrorRecord())

    def _has_record(self, name: RecordName) -> bool:
        return bool(self._records(name).versions)

    def _list(self, catalogs: Sequence[tuple[Reference, str]], others: Sequence[MirrorRequest]) -> RecordName:
        home = list_home([name for name, _ in catalogs], others)
        return RecordName(self._target.name(home), list_subject(configuration_key(catalogs, others)))

    def _lookup(self, catalog: Reference) -> _StoredCatalog:
        """Return what a name or digest in the target stands for."""
        name = catalog.name
        self._read([name])
        inventory = self._inventories[name]
        found = inventory.find(catalog.digest) if catalog.digest else inventory.tags.get(str(catalog.tag))
        return _StoredCatalog(name, found.digest if found else "")

    def _read(self, names: Iterable[str]) -> None:
        """Read the images of repositories that were not read before."""
        missing = [name for name in dict.fromkeys(names) if name not in self._inventories]
        if missing:
            workers, progress = self._options.workers, self._progress
            self._inventories.update(read_repositories(self._client, missing, workers=workers, progress=progress))

    def _in_target(self, catalog: Reference) -> Reference:
        name = Reference.parse(self._target.name(catalog))
        return name.with_digest(catalog.digest) if catalog.digest else name.with_tag(catalog.identifier)

    @cached_property
    def _bundle_tags(self) -> frozenset[tuple[str, str, str]]:
        """Repository, tag and digest of the tags that mirrors have set for images of bundles."""
        return frozenset(
            (image.repository, image.tag, image.digest)
            for inventory in self._inventories.values()
            for subject, record in (inventory.records or {}).items()
            for image in record.images
            if subject.startswith("catalog:") and image.is_tag_set and image.digest not in record.versions
        )

    def run(self, plan: PlannedDeletion) -> MirrorDeletion:
        """Delete the images of a plan, the catalogs last, and then what the records say about them."""
        workers, progress = self._options.workers, self._progress
        done = delete_images(plan.result, self._inventories, workers=workers, progress=progress)
        if not done.failures:
            self._update_records(plan, done.images)
        return done

    def _update_records(self, plan: PlannedDeletion, images: Sequence[ImageDeletion]) -> None:
        """Remove what was deleted from the records; a catalog that remains keeps its versions."""
        remaining = {each.digest for each in images if each.is_catalog and each.state not in (DELETED, ABSENT)}
        deleted = [each for each in images if each.state == DELETED]
        gone = {(each.repository.partition("/")[2], digest) for each in deleted for digest in each.manifests}
        for inventory in self._inventories.values():
            gone.update((inventory.path, digest) for digest, found in inventory.images.items() if found is None)
        for inventory in self._inventories.values():
            for subject, record in (inventory.records or {}).items():
                name = RecordName(inventory.name, subject)
                change = partial(
                    _updated,
                    versions=plan.released.get(name, frozenset()) - remaining,
                    gone=gone,
                    configurations=plan.configurations if name in plan.named else frozenset(),
                )
                if change(record) != record:
                    update_record(inventory.repository, subject, change, is_known=True)


def _updated(
    record: MirrorRecord, versions: Collection[str], gone: Collection[tuple[str, str]], configurations: Collection[str]
) -> MirrorRecord | None:
    left = record.without(versions, gone)
    kept = tuple(each for each in left.configurations if each not in configurations)
    return structs.replace(left, configurations=kept) if left.versions or left.images else None


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """A planned deletion of mirrored images.

    Attributes:
        result: The plan.
        released: The versions of records that are deleted.
        named: The records of the catalogs that are deleted.
        configurations: The keys of the configuration that is deleted.
    """

    _deletion: CatalogDeletion
    result: MirrorDeletion
    released: Mapping[RecordName, frozenset[str]] = field(repr=False)
    named: frozenset[RecordName] = field(repr=False)
    configurations: frozenset[str] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return self.result.to_dict()

    def run(self) -> MirrorDeletion:
        """Delete the images of the plan, the catalogs last.

        Raises:
            DeletesUnsupported: The registry does not delete images.
            AuthenticationFailed: The registry denies it.
        """
        return self._deletion.run(self)
