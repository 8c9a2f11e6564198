"""The images that a registry has below a prefix: their tags, the images in indexes, and which of them are catalogs."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.core.errors import LimitExceeded
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import (
    DigestMismatch,
    ImageToolsError,
    InvalidImage,
    InvalidReference,
    NotFound,
    RegistryUnavailable,
    UnsupportedImage,
)
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.repository import DIGEST_TAG
from opmkit.imagetools.spec import ImageConfig, IndexManifest, media_types
from opmkit.supply.mirror.plan import DEFAULT_WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.imagetools.registry import RegistryClient, RegistryRepository
    from opmkit.imagetools.spec import Manifest
    from opmkit.supply.mirror.target import RegistryLocation

_CATALOG_LABELS = frozenset({labels.INDEX_CONFIGS, labels.INDEX_DATABASE})
_MAX_DEPTH = 4
"""Levels of nested indexes."""


class InventoryImage(Struct, frozen=True):
    """A manifest or index of a repository.

    Attributes:
        digest: Its digest.
        children: The digests of the manifests in an index; none for a manifest.
        is_catalog: Whether its labels are those of a catalog.
    """

    digest: str
    children: tuple[str, ...] = ()
    is_catalog: bool = False


@dataclass(frozen=True)
class RepositoryInventory:
    """The tagged images of a repository.

    Attributes:
        name: Registry and repository.
        tags: The images by tag.
        repository: The repository, to read images without a tag.
    """

    name: str
    tags: Mapping[str, InventoryImage]
    repository: RegistryRepository = field(repr=False)

    @cached_property
    def tags_of(self) -> Mapping[str, Sequence[str]]:
        """The tags by the digest that they name."""
        found: dict[str, list[str]] = defaultdict(list)
        for tag, image in self.tags.items():
            found[image.digest].append(tag)
        return found

    @cached_property
    def images(self) -> dict[str, InventoryImage | None]:
        """The images by digest, including those without a tag that `find` has read; None for missing ones."""
        return {image.digest: image for image in self.tags.values()}

    def find(self, digest: str) -> InventoryImage | None:
        """Return the image with a digest, which need not have a tag; None if the repository lacks it."""
        if digest not in self.images:
            try:
                manifest = self.repository.get_manifest(digest)
            except NotFound:
                self.images[digest] = None
            else:
                self.images[digest] = InventoryImage(digest, _children(manifest))
        return self.images[digest]

    def tree(self, digest: str) -> dict[str, None]:
        """Return the digests of an image and of all images in it that the repository has, the image first."""
        found: dict[str, None] = {}
        pending = [digest]
        while pending:
            image = self.find(pending.pop())
            if image and image.digest not in found:
                found[image.digest] = None
                pending += reversed(image.children)
        return found

    @property
    def catalogs(self) -> Mapping[str, Sequence[str]]:
        """The tags of each catalog, by digest."""
        return {image.digest: self.tags_of[image.digest] for image in self.tags.values() if image.is_catalog}


def read_repository(name: str, repository: RegistryRepository) -> RepositoryInventory:
    """Read the images of a repository that have a tag; there are none if it does not exist.

    Raises:
        ImageToolsError: The repository cannot be read, or has an image that cannot be.
    """
    try:
        tags = list(repository.tags())
    except NotFound:
        tags = []
    found: dict[str, InventoryImage] = {}
    for tag in tags:
        try:
            image = _read_image(repository, _checked_tag(name, tag))
        except NotFound:  # deleted since
            continue
        except (DigestMismatch, InvalidImage, LimitExceeded, UnsupportedImage) as error:
            hint = "it may be a catalog that needs the images to delete: delete its tag, or push it again"
            raise type(error)(f"{name}:{tag}: the image cannot be read: {error.message}", hint=hint) from error
        found[tag] = image
    return RepositoryInventory(name, found, repository)


def read_repositories(
    client: RegistryClient, names: Iterable[str], *, workers: int = DEFAULT_WORKERS, progress: Progress = NO_PROGRESS
) -> dict[str, RepositoryInventory]:
    """Read the images of repositories by their names, several at a time; see `read_repository`."""
    unique = list(dict.fromkeys(names))
    progress.begin("Reading the target", len(unique), "repositories")
    found = {}
    try:
        with WorkerPool(workers, "inventory") as pool:
            reads = [pool.submit(read_repository, name, client.target(Reference.parse(name))) for name in unique]
            for name, read in zip(unique, reads, strict=True):
                found[name] = read.result()
                progress.advance(1)
    finally:
        progress.end()
    return found


def repositories_below(client: RegistryClient, location: RegistryLocation, known: Iterable[str]) -> list[str]:
    """Return the names of the repositories of a registry below a prefix.

    Args:
        client: Reads the registry.
        location: Registry and prefix.
        known: Names of repositories that exist. A list without them is incomplete, and refused.

    Raises:
        IncompleteSearch: The registry does not list its repositories, or not all of them.
        RegistryUnavailable: The registry fails.
    """
    start = "/".join(filter(None, (location.registry, location.prefix, "")))
    repository = client.target(Reference.parse(f"{start}name"))
    if repository.location.name != f"{start}name":
        raise IncompleteSearch(f"{start}: the settings of this machine map it to {repository.location.name}")
    try:
        listed = [f"{location.registry}/{name}" for name in repository.registry_repositories()]
    except RegistryUnavailable:  # which must not lead to a deletion without the search
        raise
    except (ImageToolsError, LimitExceeded) as error:
        raise IncompleteSearch(f"{location.registry} does not list its repositories: {error.message}") from error
    below = [name for name in listed if name.startswith(start)]
    if missing := sorted(set(known).difference(below)):
        raise IncompleteSearch(f"{location.registry} does not list all of its repositories: it omits {missing[0]}")
    for name in below:
        try:
            Reference.parse(name)
        except InvalidReference as error:
            raise IncompleteSearch(f"{location.registry} lists an invalid repository: {error.message}") from error
    return below


class IncompleteSearch(ImageToolsError):
    """The catalogs of a registry cannot be found, so that it is unknown which images they need."""

    def __init__(self, message: str) -> None:
        """Create the error for a reason."""
        hint = Hint(
            "name every catalog that the registry keeps with {}, and pass {}",
            ImageSetting.KEEP.with_value("CATALOG"),
            ImageSetting.SEARCH,
        )
        super().__init__(f"cannot find the catalogs that need these images: {message}", hint=hint)


def _read_image(repository: RegistryRepository, tag: str) -> InventoryImage:
    manifest = repository.get_manifest(tag)
    is_catalog = not DIGEST_TAG.fullmatch(tag) and _is_catalog(repository, manifest)
    return InventoryImage(manifest.digest, _children(manifest), is_catalog)


def _checked_tag(name: str, tag: str) -> str:
    return str(Reference.parse(f"{name}:{tag}").tag)


def _children(manifest: Manifest | IndexManifest) -> tuple[str, ...]:
    return tuple(child.digest for child in manifest.manifests) if isinstance(manifest, IndexManifest) else ()


def _is_catalog(repository: RegistryRepository, manifest: Manifest | IndexManifest) -> bool:
    """Return whether an image is a catalog by the labels of its first platform that the repository has."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(manifest, IndexManifest):
            if manifest.config.media_type not in media_types.CONFIGS:
                return False
            return not _CATALOG_LABELS.isdisjoint(ImageConfig.parse(repository.get_config(manifest.config)).labels)
        child = _first_child(repository, manifest)
        if child is None:
            return False
        manifest = child
    raise InvalidImage(f"image index {manifest.digest}: exceeds the limit of {_MAX_DEPTH} levels")


def _first_child(repository: RegistryRepository, index: IndexManifest) -> Manifest | IndexManifest | None:
    """Return the first image of an index that the repository has: a mirror may have some platforms only."""
    for child in index.images:
        with suppress(NotFound):
            return repository.get_manifest(child.digest)
    return None
