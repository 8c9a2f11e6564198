"""Deletion of mirrored catalogs with the images that no other catalog needs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.errors import ImageToolsError, InvalidReference, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.index.image.source import INDEXES, IndexSource
from opmkit.index.operations.related_images import index_images
from opmkit.supply.mirror.catalog import CatalogSelection, MirrorCatalog, open_catalog
from opmkit.supply.mirror.charts import read_charts
from opmkit.supply.mirror.deletion import (
    KEPT,
    ImageDeletion,
    MirrorDeletion,
    NeededImages,
    delete_images,
    is_replaced_tag,
    plan_deletion,
    replaced_tag,
)
from opmkit.supply.mirror.image_set import ImageSet
from opmkit.supply.mirror.inventory import read_repositories, repositories_below
from opmkit.supply.mirror.locations import RegistryTarget
from opmkit.supply.mirror.mirror import MirrorContent, find_images
from opmkit.supply.mirror.model import MirrorRequest
from opmkit.supply.mirror.target import parse_name_in_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse
    from opmkit.supply.mirror.image_set import BlockedImages
    from opmkit.supply.mirror.inventory import RepositoryInventory
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
    """

    keep: tuple[str, ...] = ()
    search: bool = True
    max_nested_paths: int | None = None
    workers: int = 8


class DeletedContent(Struct, frozen=True):
    """The mirrored content to delete.

    Attributes:
        catalogs: The catalogs by their names in the target, each with a tag or a digest.
        requests: Other images, as they were mirrored.
        blocked: The images of the catalogs that were not mirrored; None for none.
    """

    catalogs: tuple[Reference, ...] = ()
    requests: tuple[MirrorRequest, ...] = ()
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
        self._tool = tool
        self._client = client
        self._location = location
        self._options = options
        self._progress = progress
        self._uses: dict[str, tuple[ImageUse, ...]] = {}

    def find(self, name: str) -> Reference:
        """Return a catalog of the target by the name of its source, or by its name in the target.

        Raises:
            InvalidReference: The name is invalid, or means two catalogs.
            NotFound: The target has no such catalog.
        """
        mirrored = Reference.parse(name).with_default_tag()
        start = "/".join(filter(None, (self._location.registry, self._location.prefix, "")))
        candidates = [mirrored]
        if name.startswith(start):
            candidates.append(parse_name_in_target(name, self._location).with_default_tag())
        named = [self._in_target(each) for each in candidates]
        found = [each for each in named if self._lookup(each).digest]
        if not found:
            looked_for = " or ".join(map(str, named))
            raise NotFound(f"{name}: the target has no {looked_for}", hint="check the name, and the target")
        if len(found) > 1:
            hint = f"write the name in the target: {found[0]}, or mirror to another prefix"
            raise InvalidReference(f"{name}: means {found[0]} or {found[1]}", hint=hint)
        return found[0]

    def mark_replaced(self, catalog: Reference, digest: str) -> None:
        """Tag a catalog of the target that is about to be replaced, so that `replaced` finds it in any later run.

        Args:
            catalog: Its name and tag in the target.
            digest: The digest that the tag will have.
        """
        repository = self._client.target(catalog)
        with suppress(NotFound):
            current = repository.get_manifest(catalog.identifier)
            if current.digest != digest:
                repository.put_manifest(current, replaced_tag(current.digest))

    def replaced(self, catalogs: Mapping[Reference, str]) -> DeletedContent:
        """Return the catalogs that were or will be replaced by others of the same names.

        Args:
            catalogs: The digests of the new catalogs by their names and tags in the target.
        """
        found: list[Reference] = []
        for catalog, digest in catalogs.items():
            current = self._lookup(catalog)
            inventory = self._inventories[current.repository]
            marked = [image for tag, image in inventory.tags.items() if is_replaced_tag(tag)]
            found += [catalog.with_digest(image.digest) for image in marked if image.is_catalog]
            if current.digest not in ("", digest) and current.digest in inventory.catalogs:
                found.append(catalog)
        return DeletedContent(tuple(dict.fromkeys(found)))

    def open(self, content: Sequence[str] | ImageSet) -> PlannedDeletion:
        """Plan to delete catalogs by their names, or what an image set describes; see `find` and `plan`."""
        if isinstance(content, ImageSet):
            deleted = self.content(content)
        else:
            deleted = DeletedContent(tuple(dict.fromkeys(map(self.find, content))))
        return PlannedDeletion(self, self.plan(deleted))

    def content(self, image_set: ImageSet) -> DeletedContent:
        """Return the mirrored content that an image set describes.

        Of a catalog with packages, the bundles that they select are read from the source. The catalog in the target
        is deleted only if all of it is.

        Raises:
            CatalogError: A catalog in the source is invalid, or lacks a package or channel; or a chart is invalid.
            ImageToolsError: It cannot be read.
        """
        catalogs, requests = [], [*image_set.images, *read_charts(image_set.charts).requests]
        for entry, (index, selection) in zip(image_set.catalogs, image_set.selections(CatalogSelection()), strict=True):
            if image_set.is_deletion and entry.selection is not None and entry.selection.packages:
                with open_catalog(self._tool, index, selection) as opened:
                    requests += find_images([opened], MirrorContent(()), self._target)[0]
            else:
                name = self._in_target(entry.name or Reference.parse(index))
                catalogs.append(name.with_tag(entry.tag) if entry.tag else name)
        return DeletedContent(tuple(catalogs), tuple(requests), image_set.blocked)

    def plan(self, content: DeletedContent, needed: NeededImages | None = None) -> MirrorDeletion:
        """Plan to delete catalogs with the images that only they need, and other images.

        Args:
            content: The content to delete.
            needed: Further images to keep.

        Raises:
            IncompleteSearch: The registry does not list its repositories.
            CatalogError: A catalog that is deleted or kept cannot be read.
            ImageToolsError: The registry cannot be read.
        """
        stored = {catalog: self._lookup(catalog) for catalog in content.catalogs}
        if self._options.search:
            existing = [each.repository for each in stored.values() if each.digest]
            self._read(repositories_below(self._client, self._location, existing))
        kept: list[ImageDeletion] = []
        while True:
            keys = {_StoredCatalog(image.repository, image.digest) for image in kept}
            deleted = {catalog: each for catalog, each in stored.items() if each not in keys}
            plan = self._plan(content, deleted, needed or NeededImages())
            remaining = [image for image in plan.images if image.is_catalog and image.state == KEPT]
            if not remaining:
                return replace(plan, images=(*kept, *plan.images))
            kept += remaining  # and so are the images that they need

    def run(self, plan: MirrorDeletion) -> MirrorDeletion:
        """Delete the images of a plan, the catalogs last; see `delete_images`."""
        return delete_images(plan, self._inventories, workers=self._options.workers, progress=self._progress)

    def _plan(
        self, content: DeletedContent, deleted: Mapping[Reference, _StoredCatalog], needed: NeededImages
    ) -> MirrorDeletion:
        opened = [
            MirrorCatalog(catalog, catalog.identifier, self._images(f"{each.repository}@{each.digest}"))
            for catalog, each in deleted.items()
            if each.digest
        ]
        requests, _ = find_images(opened, MirrorContent((), content.requests, content.blocked), self._target)
        for catalog, each in deleted.items():
            reference = catalog.with_digest(each.digest) if each.digest else catalog
            name = parse_name_in_target(catalog.name, self._location)
            requests.append(MirrorRequest(reference, (), name, catalog.tag or "", last=True))
        requests = [request for request in requests if self._has_name(request)]
        self._read(self._target.name(request.target_name) for request in requests)
        kept = self._kept_catalogs(set(deleted.values()))
        needed = NeededImages(dict(needed.digests), {name: dict(each) for name, each in needed.names.items()})
        for label, text in [*kept.items(), *((text, text) for text in self._options.keep)]:
            self._add_needed(needed, label, self._images(text))
        return MirrorDeletion(tuple(plan_deletion(requests, self._target, self._inventories, needed)), tuple(kept))

    def _kept_catalogs(self, deleted: set[_StoredCatalog]) -> dict[str, str]:
        """Return the other catalogs of the target: their names by digest, by the names with their tags."""
        return {
            f"{name}:{tags[0]}": f"{name}@{digest}"
            for name, inventory in self._inventories.items()
            for digest, every in inventory.catalogs.items()
            if _StoredCatalog(name, digest) not in deleted
            and (tags := [tag for tag in every if not is_replaced_tag(tag)])
        }

    def _add_needed(self, needed: NeededImages, catalog: str, uses: Iterable[ImageUse]) -> None:
        for use in uses:
            try:
                image = Reference.parse(use.image).with_default_tag()
            except InvalidReference:  # it was not mirrored
                continue
            needed.add(image, f"{catalog}, bundle {use.bundle}", self._target)

    def _images(self, text: str) -> tuple[ImageUse, ...]:
        """Return the images that the bundles of an index use; raise CatalogError if it cannot be read."""
        if text not in self._uses:
            try:
                source = IndexSource.resolve(lambda: self._tool, text)
                source.require(INDEXES)
                self._uses[text] = tuple(index_images(source))
            except (CatalogError, ImageToolsError) as error:
                message = f"{text}: cannot tell which images the catalog needs: {error.lines[0]}"
                raise CatalogError(message, details=error.lines[1:], hint=error.hint) from error
        return self._uses[text]

    def _lookup(self, catalog: Reference) -> _StoredCatalog:
        """Return what a name or digest in the target stands for."""
        name = catalog.name
        self._read([name])
        inventory = self._inventories[name]
        found = inventory.find(catalog.digest) if catalog.digest else inventory.tags.get(str(catalog.tag))
        return _StoredCatalog(name, found.digest if found else "")

    def _read(self, names: Iterable[str]) -> None:
        """Read the images of repositories that were not read before."""
        missing = [name for name in names if name not in self._inventories]
        if missing:
            workers, progress = self._options.workers, self._progress
            self._inventories.update(read_repositories(self._client, missing, workers=workers, progress=progress))

    def _in_target(self, catalog: Reference) -> Reference:
        name = Reference.parse(self._target.name(catalog))
        return name.with_digest(catalog.digest) if catalog.digest else name.with_tag(catalog.identifier)

    def _has_name(self, request: MirrorRequest) -> bool:
        try:
            self._target.name(request.target_name)
        except InvalidReference:  # it was not mirrored
            return False
        return True


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """A planned deletion of mirrored images.

    Attributes:
        result: The plan.
    """

    _deletion: CatalogDeletion
    result: MirrorDeletion

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return self.result.to_dict()

    def run(self) -> MirrorDeletion:
        """Delete the images of the plan, the catalogs last.

        Raises:
            DeletesUnsupported: The registry does not delete images.
            AuthenticationFailed: The registry denies it.
        """
        return self._deletion.run(self.result)
