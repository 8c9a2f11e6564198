"""The images and records that a registry has below a prefix."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opmkit.core.errors import LimitExceeded
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import (
    AuthenticationFailed,
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
from opmkit.imagetools.spec import IndexManifest
from opmkit.supply.mirror.plan import DEFAULT_WORKERS
from opmkit.supply.mirror.record import MirrorRecord, catalog_subject, is_record_tag, parse_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.registry import RegistryClient, RegistryRepository
    from opmkit.imagetools.spec import Descriptor, Manifest
    from opmkit.supply.mirror.target import RegistryLocation

_FILE_SYSTEMS = ("application/vnd.oci.image.layer.", "application/vnd.docker.image.rootfs.")
"""Beginnings of the media types of layers that are parts of a file system."""


class InventoryImage(Struct, frozen=True):
    """A manifest or index of a repository.

    Attributes:
        digest: Its digest.
        children: The digests of the manifests in an index; none for a manifest.
        images: The children that are images; not attestations and other artifacts.
        subject: The digest of the image that it belongs to as a signature or another artifact, "" for none.
        config: The configuration of a manifest.
        layers: The layers of a manifest that are parts of a file system.
    """

    digest: str
    children: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    subject: str = ""
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] = ()

    @classmethod
    def from_manifest(cls, manifest: Manifest | IndexManifest) -> InventoryImage:
        """Return what is known of a manifest or index."""
        subject = manifest.subject.digest if manifest.subject else ""
        if isinstance(manifest, IndexManifest):
            children = tuple(each.digest for each in manifest.manifests)
            return cls(manifest.digest, children, tuple(each.digest for each in manifest.images), subject)
        layers = tuple(each for each in manifest.layers if each.media_type.startswith(_FILE_SYSTEMS))
        return cls(manifest.digest, (), (), subject, manifest.config, layers)


@dataclass(frozen=True)
class RepositoryInventory:
    """The tagged images of a repository, and its records.

    Attributes:
        name: Registry and repository.
        tags: The images by tag, without the records.
        repository: The repository, to read images without a tag.
        records: The records by their subjects; None if there is no artifact for
            them, not even one without a record.
    """

    name: str
    tags: Mapping[str, InventoryImage]
    repository: RegistryRepository = field(repr=False)
    records: Mapping[str, MirrorRecord] | None = None

    @cached_property
    def path(self) -> str:
        """The repository without its registry."""
        return self.name.partition("/")[2]

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

    @property
    def is_empty(self) -> bool:
        """Whether the registry lists no tag, not even that of records."""
        return not self.tags and self.records is None

    def find(self, digest: str) -> InventoryImage | None:
        """Return the image with a digest, which need not have a tag; None if the repository lacks it.

        Raises:
            IncompleteSearch: The registry has it, but lists no tag of the repository.
        """
        if digest not in self.images:
            try:
                manifest = self.repository.get_manifest(digest)
            except NotFound:
                self.images[digest] = None
            else:
                self.images[digest] = InventoryImage.from_manifest(manifest)
        found = self.images[digest]
        if found and self.is_empty:
            raise IncompleteSearch(f"the registry lists no tag of {self.name}, but has {digest} in it")
        return found

    def tree(self, digest: str) -> dict[str, None]:
        """Return the digests of an image and of all images in it, the image first."""
        found: dict[str, None] = {}
        pending = [digest]
        while pending:
            current = pending.pop()
            if current not in found:
                found[current] = None
                image = self.find(current)
                pending += reversed(image.children) if image else ()
        return found


def read_repository(name: str, repository: RegistryRepository) -> RepositoryInventory:
    """Read the images of a repository that have a tag, and its records; there are none if it does not exist.

    Raises:
        InvalidImage, UnsupportedImage: An image that might be a catalog, or a record, cannot be read, or does not exist
            although its tag is listed.
        ImageToolsError: The repository cannot be read.
    """
    tags, records = _read_records(name, repository)
    found = {tag: _read_image(name, repository, tag) for tag in tags}
    return RepositoryInventory(name, found, repository, records)


def _read_records(name: str, repository: RegistryRepository) -> tuple[list[str], dict[str, MirrorRecord] | None]:
    """Return the tags of a repository without those of records, and the records."""
    try:
        tags = list(repository.tags())
    except NotFound:
        tags = []
    records: dict[str, MirrorRecord] | None = None
    for tag in filter(is_record_tag, tags):
        with readable(f"{name}:{tag}"):
            records = (records or {}) | parse_record(repository, tag, repository.get_manifest(tag))
    return [tag for tag in tags if not is_record_tag(tag)], records


def _read_image(name: str, repository: RegistryRepository, tag: str) -> InventoryImage:
    with readable(f"{name}:{tag}"):
        return InventoryImage.from_manifest(repository.get_manifest(_checked_tag(name, tag)))


@contextmanager
def readable(subject: str) -> Iterator[None]:
    """Raise InvalidImage or UnsupportedImage if an image or record cannot be read, or does not exist."""
    try:
        yield
    except (DigestMismatch, InvalidImage, LimitExceeded, NotFound, UnsupportedImage) as error:
        hint = "it may need the images to delete: run the command again, or delete its tag or push it again"
        kind = UnsupportedImage if isinstance(error, UnsupportedImage) else InvalidImage
        raise kind(f"{subject}: the image cannot be read: {error.message}", hint=hint) from error


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


def read_outside(
    client: RegistryClient, location: RegistryLocation, names: Iterable[str], *, workers: int = DEFAULT_WORKERS
) -> dict[str, RepositoryInventory]:
    """Read the repositories outside of a prefix, without those and the images that cannot be read.

    Of repositories that do not share the first component of the prefix, only the records and the catalogs that these
    are about are read, which takes a request for most of them.

    Raises:
        InvalidImage, UnsupportedImage: A record cannot be read.
        RegistryUnavailable: The registry fails.
    """
    namespace = f"{location.registry}/{location.prefix.partition('/')[0]}/"

    def read(name: str) -> RepositoryInventory | None:
        found: dict[str, InventoryImage] = {}
        try:
            repository = client.target(Reference.parse(name))
            tags, records = _read_records(name, repository)
        except (AuthenticationFailed, InvalidReference):
            return None
        for tag in tags:
            if name.startswith(namespace) or catalog_subject(tag) in (records or {}):
                with suppress(InvalidImage, UnsupportedImage, AuthenticationFailed, InvalidReference):
                    found[tag] = _read_image(name, repository, tag)
        return RepositoryInventory(name, found, repository, records)

    with WorkerPool(workers, "outside") as pool:
        return {found.name: found for found in pool.map(read, names) if found}


def repositories_below(client: RegistryClient, location: RegistryLocation) -> list[str]:
    """Return the names of the repositories of a registry below a prefix; see `list_repositories`."""
    return list_repositories(client, location).below


class RepositoryList(NamedTuple):
    """The names of the repositories of a registry below a prefix, and of the others."""

    below: list[str]
    outside: list[str]


def list_repositories(client: RegistryClient, location: RegistryLocation) -> RepositoryList:
    """Return the names of the repositories of a registry.

    Raises:
        IncompleteSearch: The registry does not list its repositories.
        RegistryUnavailable: The registry fails.
    """
    start = location.start
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
    for name in below:
        try:
            Reference.parse(name)
        except InvalidReference as error:
            raise IncompleteSearch(f"{location.registry} lists an invalid repository: {error.message}") from error
    return RepositoryList(below, [name for name in listed if not name.startswith(start)])


def check_listing(
    location: RegistryLocation, listed: Iterable[str], inventories: Mapping[str, RepositoryInventory]
) -> None:
    """Raise IncompleteSearch if repositories are known that the registry does not list, or whose tags it does not.

    Args:
        location: Registry and prefix.
        listed: The names of the repositories that the registry lists.
        inventories: Repositories that were read, by name: those that are listed, and others.
    """
    for name in listed:
        if inventories[name].is_empty:
            raise IncompleteSearch(
                f"{name}: the registry lists the repository, but no tag in it; if that is right, because an upload was "
                "interrupted, complete it or remove the repository"
            )
    known = {name for name, inventory in inventories.items() if not inventory.is_empty}
    if missing := sorted(known.difference(listed)):
        raise IncompleteSearch(f"{location.registry} does not list all of its repositories: it omits {missing[0]}")


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


def _checked_tag(name: str, tag: str) -> str:
    return str(Reference.parse(f"{name}:{tag}").tag)
