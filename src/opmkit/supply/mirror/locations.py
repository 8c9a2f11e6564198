"""Targets of mirrors by their names: registries, directories and archives."""

from __future__ import annotations

import io
import tarfile
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors, read_limited, write_files
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import InvalidReference, NotFound
from opmkit.imagetools.reference import (
    LayoutReference,
    OciArchiveReference,
    Reference,
    named_path,
    parse_image_reference,
)
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, is_digest
from opmkit.imagetools.store import LayoutRepository
from opmkit.imagetools.store.layout import Layout
from opmkit.imagetools.store.reader import REF_NAME, LayoutReader
from opmkit.supply.mirror.description import DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE, CarriedContent, MirrorDescription
from opmkit.supply.mirror.inventory import IncompleteSearch, repositories_below
from opmkit.supply.mirror.model import repository_below
from opmkit.supply.mirror.plan import DEFAULT_WORKERS
from opmkit.supply.mirror.record import NamedRecord, read_records
from opmkit.supply.mirror.target import ArchiveLocation, ArchiveTarget, RegistryLocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import BlobOpener, ImageSource, Repository
    from opmkit.imagetools.spec import IndexManifest, Manifest
    from opmkit.imagetools.store.reader import LayoutFiles
    from opmkit.supply.mirror.description import MirroredImage
    from opmkit.supply.mirror.target import MirrorLocation, MirrorTarget


@contextmanager
def open_target(
    client: RegistryClient,
    location: MirrorLocation,
    *,
    have: Path | None = None,
    max_components: int | None = None,
) -> Iterator[MirrorTarget]:
    """Open the target of a mirror; release it at the end of the block.

    Args:
        client: Writes to a registry.
        location: The target, see `opmkit.supply.mirror.target.parse_location`.
        have: The record of what earlier archives contain, for an archive.
        max_components: Components of a repository name in a registry.
    """
    if isinstance(location, RegistryLocation):
        yield RegistryTarget(client, location, max_components=max_components)
    elif isinstance(location, ArchiveLocation):
        archive = ArchiveTarget(location.path, CarriedContent.read(have) if have else None)
        try:
            yield archive
        finally:
            archive.close()
    else:
        yield DirectoryTarget(location)


def commit_target(target: MirrorTarget, images: Iterable[MirroredImage], have: Path | None = None) -> bool:
    """Complete an archive or the description of a directory, and the record of what was carried.

    Returns:
        Whether the archive or the description has changed, False for a registry.
    """
    if not isinstance(target, ArchiveTarget | DirectoryTarget):
        return False
    described = list(images)
    has_changed = target.commit(described)
    if have and isinstance(target, ArchiveTarget):
        target.added(described).add_to(have)
    return has_changed


def find_layout_source(text: str) -> LayoutSource | None:
    """Return the directory or archive that a mirror was written to, None if the name is of something else."""
    try:
        reference = parse_image_reference(text)
    except InvalidReference:
        reference = None
    return open_layout_source(text, reference)


_FLUSH_COUNT = 64
"""Images after which a directory's index is written."""
_STALE_SECONDS = 3600.0
"""Time since the last write after which a temporary file is that of a process that was killed."""


class DirectoryTarget:
    """A directory with one OCI image layout for all images.

    The ``org.opencontainers.image.ref.name`` of an image is its source with its tag in the target:
    ``quay.io/org/name:tag``. ``skopeo`` reads it as ``oci:DIR:quay.io/org/name:tag``, and ``oras`` as ``DIR@DIGEST``.
    The index of the layout is written after every 64 images, and at the end; the blobs of other images remain, so that
    the next run does not read them again.
    """

    shares_blobs = True

    def __init__(self, path: Path) -> None:
        """Use the directory at ``path``, which the first write creates."""
        self.path = path
        self._layout = Layout(path)
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._listed: dict[str, str] | None = None
        self._pending: dict[str, Descriptor] = {}
        self._unsynced: set[str] = set()
        self._repositories: dict[str, _DirectoryRepository] = {}

    def name(self, source: Reference) -> str:
        """Return the name of the source's repository, with its registry."""
        return source.name

    def repository(self, source: Reference) -> Repository:
        """Return the images with names that begin with that of the source's repository."""
        with self._lock:
            if source.name not in self._repositories:
                self._repositories[source.name] = _DirectoryRepository(self, source.name)
            return self._repositories[source.name]

    def records(self) -> Iterable[NamedRecord]:
        """Return none."""
        return ()

    def finish(self) -> None:
        """Sync all blobs to disk, and add the images to the index of the layout; raise DiskError.

        Files that a killed process was writing are removed after an hour.
        """
        with self._flush_lock:  # another thread may be syncing blobs of these images
            with self._lock:
                pending, unsynced = self._pending, self._unsynced
                self._pending, self._unsynced = {}, set()
            if pending:
                self._list(pending, sorted(unsynced))
                self._layout.remove_stale_files(_STALE_SECONDS)

    def _list(self, pending: Mapping[str, Descriptor], unsynced: Sequence[str]) -> None:
        def update(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            retained = [each for each in manifests if each.annotations.get(REF_NAME, "") not in pending]
            return [*retained, *pending.values()]

        self._layout.update_index(update, required=unsynced)

    def commit(self, images: Iterable[MirroredImage]) -> bool:
        """Add images to the description from which the directory is loaded; return whether it has changed."""
        path = self.path / DESCRIPTION_FILE
        with self._layout.lock():
            raw = read_limited(path, MAX_DESCRIPTION_SIZE) if path.exists() else None
            existing = MirrorDescription() if raw is None else MirrorDescription.parse(raw, str(path))
            description = existing.merge(MirrorDescription({image.name: image for image in images})).dump()
            if description != raw:
                write_files(self.path, {DESCRIPTION_FILE: description})
        return description != raw

    def listed_digest(self, name: str) -> str | None:
        """Return the digest of the image with a name in the index, None if there is none."""
        with self._lock:
            if self._listed is None:
                self._listed = self._read_index()
            return self._listed.get(name)

    def add_blob(self, digest: str) -> None:
        """Record that a blob must be synced to disk before an image that needs it is listed."""
        with self._lock:
            self._unsynced.add(digest)

    def add_image(self, name: str, descriptor: Descriptor) -> None:
        """List an image under a name in the next update of the index."""
        self.listed_digest(name)
        with self._lock:
            self._pending[name] = replace(descriptor, annotations={REF_NAME: name})
            if self._listed is not None:
                self._listed[name] = descriptor.digest
            is_full = len(self._pending) >= _FLUSH_COUNT
        if is_full:
            self.finish()

    def _read_index(self) -> dict[str, str]:
        try:
            manifests = self._layout.read_index().manifests
        except NotFound:
            return {}
        return {each.annotations.get(REF_NAME, ""): each.digest for each in manifests}


class _DirectoryRepository(LayoutRepository):
    """The images of one source in the layout of a `DirectoryTarget`."""

    def __init__(self, target: DirectoryTarget, name: str) -> None:
        super().__init__(target.path, name)
        self._target = target
        self._name = name

    def resolve(self, identifier: str) -> Descriptor:
        """Return the descriptor of an image by its tag, or of a manifest by its digest."""
        digest = identifier if is_digest(identifier) else self._target.listed_digest(f"{self._name}:{identifier}")
        if digest is None:
            raise NotFound(f"{self.layout.path}: {self._name}: {identifier}: not found")
        return super().resolve(digest)

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Store a blob unless an intact copy exists."""
        super().put_blob(descriptor, opener, mount_from=mount_from)
        self._target.add_blob(descriptor.digest)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest; with a tag list it in the next update of the index."""
        descriptor = manifest.descriptor
        self.put_blob(descriptor, partial(io.BytesIO, manifest.raw))
        if tag:
            self._target.add_image(f"{self._name}:{tag}", descriptor)
        return descriptor


class RegistryTarget:
    """A registry, whose repositories have the paths of the sources, without their registries, below a prefix.

    ``quay.io/org/name`` becomes ``REGISTRY/PREFIX/org/name``.
    """

    shares_blobs = False

    def __init__(
        self, client: RegistryClient, location: RegistryLocation, *, max_components: int | None = None
    ) -> None:
        """Create a target; for ``max_components`` see `repository_below`."""
        self._client = client
        self._location = location
        self._max_components = max_components
        self._repositories: dict[str, Repository] = {}
        self._lock = threading.Lock()

    def name(self, source: Reference) -> str:
        """Return REGISTRY/PREFIX/PATH; raise InvalidReference if it is too long."""
        return self._reference(source).name

    def repository(self, source: Reference) -> Repository:
        """Return the repository of the registry."""
        reference = self._reference(source)
        with self._lock:
            if reference.name not in self._repositories:
                self._repositories[reference.name] = self._client.target(reference)
            return self._repositories[reference.name]

    def records(self) -> Iterator[NamedRecord]:
        """Yield the records below the prefix, none if the registry does not list its repositories."""
        with suppress(IncompleteSearch), WorkerPool(DEFAULT_WORKERS, "records") as pool:
            names = repositories_below(self._client, self._location)
            repositories = [self._client.target(Reference.parse(name)) for name in names]
            for name, records in zip(names, list(pool.map(read_records, repositories)), strict=True):
                yield from (NamedRecord(name, subject, record) for subject, record in records.items())

    def finish(self) -> None:
        """Do nothing: images are complete once they have been put."""

    def _reference(self, source: Reference) -> Reference:
        return Reference(self._location.registry, repository_below(self._location.prefix, source, self._max_components))


class LayoutSource:
    """The images of a directory or archive; a `MirrorSource`."""

    def __init__(self, files: LayoutFiles, description: MirrorDescription) -> None:
        """Read blobs from ``files``."""
        self.files = files
        self.description = description

    def repository(self, reference: Reference, /) -> LayoutReader:
        """Return the images of a source."""
        return _SourceReader(self, reference.name)

    def admit(self, reference: Reference, source: ImageSource, identifier: str, /) -> str:
        """Return the identifier: the directory or archive as a whole was checked, see `is_accepted`."""
        return identifier

    def is_accepted(self, client: RegistryClient) -> bool:
        """Return whether the policy for signatures accepts the images of this place, which have no signatures here."""
        path = Path(self.files.location)
        return client.accepts_unsigned(LayoutReference(path) if path.is_dir() else OciArchiveReference(path))


class _SourceReader(LayoutReader):
    """The images of one source; they are only found by digest."""

    def __init__(self, source: LayoutSource, name: str) -> None:
        super().__init__(source.files, name)
        self._source = source

    def resolve(self, identifier: str) -> Descriptor:
        """Return a descriptor without a media type, which the manifest has."""
        size = self._files.blob_size(identifier)
        if size is None or size > MAX_MANIFEST_SIZE:
            raise NotFound(f"{self._files.location}: manifest {identifier} not found", hint="create it again")
        return Descriptor("", identifier, size)

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end.

        Raises:
            DiskError: The blob does not exist. A NotFound would be attributed to the target, and retried.
        """
        if self._files.blob_size(descriptor.digest) is not None:
            return super().open_blob(descriptor)
        subject = f"{self._files.location}: blob {descriptor.digest}"
        if descriptor.digest in self._source.description.omitted:
            hint = "load the earlier archives into the same target first, or create an archive with everything"
            raise DiskError(f"{subject} is in an earlier archive, and not in the target", hint=hint)
        raise DiskError(f"{subject} not found", hint="create it again")


def open_layout_source(text: str, reference: ImageReference | None) -> LayoutSource | None:
    """Open the directory or archive that a mirror was written to, by its path or reference.

    Returns:
        The source, or None if it is something else.

    Raises:
        ImageToolsError: It cannot be read, or is damaged or unsafe.
    """
    if isinstance(reference, LayoutReference | OciArchiveReference):
        path = None if reference.identifier else reference.path
    else:
        path = named_path(text)
    if path is None:
        return None
    with disk_errors(path):
        if path.is_dir():
            return _open_directory(path)
        if path.is_file() and (isinstance(reference, OciArchiveReference) or tarfile.is_tarfile(path)):
            return _open_archive(path)
    return None


def _open_directory(path: Path) -> LayoutSource | None:
    file = path / DESCRIPTION_FILE
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        raw = stream.read(MAX_DESCRIPTION_SIZE + 1)
    return LayoutSource(Layout(path), MirrorDescription.parse(raw, str(file)))


def _open_archive(path: Path) -> LayoutSource | None:
    from opmkit.imagetools.archive import ArchivedLayout, TarArchive  # slow to import: compression

    archive = TarArchive.open(path)
    if DESCRIPTION_FILE not in archive:
        return None
    raw = archive.read(DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE)
    return LayoutSource(ArchivedLayout(archive), MirrorDescription.parse(raw, f"{path}: {DESCRIPTION_FILE}"))
