"""Interfaces of the sources and targets of a mirror, and targets that are registries, layouts or archives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import DiskError
from opmkit.imagetools.errors import InvalidReference, NotFound
from opmkit.imagetools.reference import Reference, is_registry_host
from opmkit.imagetools.spec import Descriptor, IndexManifest, is_digest
from opmkit.imagetools.store.layout import LAYOUT_CONTENT
from opmkit.imagetools.store.layout_files import INDEX_FILE, LAYOUT_FILE
from opmkit.imagetools.store.reader import REF_NAME, LayoutReader, read_manifest
from opmkit.supply.mirror.description import DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE, CarriedContent, MirrorDescription

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.imagetools.archive import ArchivedLayout
    from opmkit.imagetools.archive.growing import GrowingArchive
    from opmkit.imagetools.repository import BlobOpener, ImageSource, Repository
    from opmkit.imagetools.spec import Manifest
    from opmkit.supply.mirror.description import MirroredImage
    from opmkit.supply.mirror.record import NamedRecord


_ARCHIVE_PREFIX = "oci-archive:"
_DIRECTORY_PREFIX = "oci:"
_REGISTRY_PREFIX = "docker://"
_PATH_STARTS = ("/", "./", "../")
_HINT = (
    "write REGISTRY[/PREFIX], such as registry.example.com/mirror, the path of a directory, such as ./mirror, or "
    "oci-archive:FILE"
)


class MirrorSource(Protocol):
    """A place that images are mirrored from, such as `RegistryClient`."""

    def repository(self, reference: Reference, /) -> ImageSource:
        """Return the repository that contains an image; raise ImageToolsError if there is none."""
        ...

    def admit(self, reference: Reference, source: ImageSource, identifier: str, /) -> str:
        """Check an image with the policy for signatures, and return the tag or digest to read it by."""
        ...


class MirrorTarget(Protocol):
    """A place that images are mirrored to. Thread-safe."""

    @property
    def shares_blobs(self) -> bool:
        """Whether all of its repositories have the same blobs."""
        ...

    def name(self, source: Reference) -> str:
        """Return the name of the repository for the images of a source's repository.

        Raises:
            InvalidReference: There is no valid name in the target.
        """
        ...

    def repository(self, source: Reference) -> Repository:
        """Return the repository for the images of a source's repository, the same object for the same name.

        A manifest that is put without a tag may be lost unless its index is put with one.
        """
        ...

    def records(self) -> Iterable[NamedRecord]:
        """Return the records of all mirrors to the target that can be found; a directory or archive has none."""
        ...

    def finish(self) -> None:
        """Write what is not written yet. Called after the last image, and after a failure or an interruption."""
        ...


class RegistryLocation(Struct, frozen=True):
    """A registry and the first part of the names of its repositories, which may be empty."""

    registry: str
    prefix: str = ""

    @property
    def start(self) -> str:
        """The start of the names of all repositories in it: registry and prefix, with a slash at the end."""
        return f"{self.registry}/{self.prefix}/" if self.prefix else f"{self.registry}/"


class ArchiveLocation(Struct, frozen=True):
    """The path of an archive."""

    path: Path


MirrorLocation: TypeAlias = RegistryLocation | ArchiveLocation | Path
"""The location of a target: a registry, an archive or a directory."""


def parse_location(text: str) -> MirrorLocation:
    """Parse the name of a target: a registry, an archive or a directory.

    These are ``REGISTRY[/PREFIX]``, ``oci-archive:FILE``, and ``oci:DIR``, ``/...``, ``./...`` or an existing
    directory.

    Raises:
        InvalidReference: The text is invalid.
    """
    if text.startswith(_ARCHIVE_PREFIX) and text != _ARCHIVE_PREFIX:
        return ArchiveLocation(Path(text.removeprefix(_ARCHIVE_PREFIX)))
    if text.startswith(_DIRECTORY_PREFIX) and text != _DIRECTORY_PREFIX:
        return Path(text.removeprefix(_DIRECTORY_PREFIX))
    if text in (".", "..") or text.startswith(_PATH_STARTS):
        return Path(text)
    registry, _, prefix = text.removeprefix(_REGISTRY_PREFIX).removesuffix("/").partition("/")
    if not is_registry_host(registry):
        if not text.startswith(_REGISTRY_PREFIX) and text and Path(text).is_dir():
            return Path(text)
        raise InvalidReference(f"invalid target {text!r}: not a registry with a host name", hint=_HINT)
    try:
        Reference(registry, f"{prefix}/name" if prefix else "name")
    except InvalidReference as error:
        reason = error.message.rpartition(": ")[2]
        raise InvalidReference(f"invalid target {text!r}: {reason}", hint=_HINT) from error
    return RegistryLocation(registry, prefix)


def parse_registry_location(text: str) -> RegistryLocation:
    """Parse the name of a target that must be a registry; see `parse_location`.

    Raises:
        InvalidReference: The text is invalid, or names a directory or archive.
    """
    location = parse_location(text)
    if isinstance(location, RegistryLocation):
        return location
    hint = "delete the directory or archive, and mirror what is still needed to it again"
    raise InvalidReference(f"{text}: images can only be deleted from a registry", hint=hint)


def parse_name_in_target(text: str, location: MirrorLocation) -> Reference:
    """Parse the name that an image gets in a target: ``NAME[:TAG]`` below the prefix of a registry, or a full name.

    The result is a source in the sense of `MirrorTarget.name`.

    Args:
        text: The name. That of a registry may begin with the registry and the prefix.
        location: The target, see `parse_location`.

    Raises:
        InvalidReference: The name is invalid.
    """
    if not isinstance(location, RegistryLocation):
        return Reference.parse(text)
    path = text.removeprefix(location.start)
    first, slash, _ = path.partition("/")
    return Reference.parse(path if slash and is_registry_host(first) else f"{location.registry}/{path}")


class ArchiveTarget:
    """A tar archive with one OCI image layout for all images, and a description to load them from.

    The layout is that of `DirectoryTarget`, and is read by skopeo as ``oci-archive:FILE:NAME``. An existing archive is
    extended. Content is written to ``FILE.partial``, which an interrupted command leaves for the next one to continue,
    and which replaces the archive in `commit`.
    """

    shares_blobs = True

    def __init__(self, path: Path, carried: CarriedContent | None = None) -> None:
        """Use the archive at ``path``, without the content that was ``carried`` before.

        Raises:
            DiskError: The path is that of another file.
        """
        self.path = path
        self._carried = carried or CarriedContent()
        self._existing_files, self._existing = _open_existing(path)
        self._file: GrowingArchive | None = None
        self._lock = threading.Lock()
        self._repositories: dict[str, Repository] = {}
        self._omitted: dict[str, str] = {}
        self._written: dict[str, str] = {}

    @property
    def location(self) -> str:
        """The path, for errors."""
        return str(self.path)

    def name(self, source: Reference) -> str:
        """Return the name of the source's repository, with its registry."""
        return source.name

    def repository(self, source: Reference) -> Repository:
        """Return the images with names that begin with that of the source's repository."""
        with self._lock:
            return self._repositories.setdefault(source.name, _ArchiveRepository(self, source.name))

    def records(self) -> Iterable[NamedRecord]:
        """Return none."""
        return ()

    def finish(self) -> None:
        """Do nothing: `commit` completes the archive."""

    def commit(self, images: Iterable[MirroredImage]) -> bool:
        """Complete the archive with the images whose content it has; return whether it has changed.

        Images that were carried before are not listed. Raises DiskError.
        """
        listed = [image for image in images if self._carried.images.get(image.name) != image.digest or image.is_catalog]
        added = MirrorDescription({image.name: image for image in listed}, self._omitted)
        if self._file is None and self._existing.merge(added) == self._existing:
            return False
        archive = self._open()
        _, existing = _open_existing(self.path)  # it may have been replaced before this process had the lock
        description = existing.merge(added)
        index = IndexManifest.build([self._descriptor(archive, image) for image in description.images.values()])
        files = {DESCRIPTION_FILE: description.dump(), INDEX_FILE: index.raw, LAYOUT_FILE: LAYOUT_CONTENT}
        archive.finish(files)
        self._file = None
        return True

    def added(self, images: Iterable[MirroredImage]) -> CarriedContent:
        """Return the images, and the blobs that this archive has for them."""
        return CarriedContent({image.name: image.digest for image in images}, self._written)

    def close(self) -> None:
        """Release the archive; what was written remains in ``FILE.partial`` unless it was committed."""
        if self._file is not None:
            self._file.close()

    def listed_digest(self, name: str) -> str | None:
        """Return the digest of the image with a name, in the existing archive or carried before."""
        image = self._existing.images.get(name)
        return image.digest if image else self._carried.images.get(name)

    def read_index(self) -> IndexManifest:
        """Return an index without images, which are listed by `commit`."""
        return IndexManifest.build(())

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end; raise NotFound if the archive does not have it."""
        if self._file is None and self._existing_files is not None:
            return self._existing_files.open_blob(descriptor)
        if self._file is None or self._file.size(descriptor.digest) is None:
            raise NotFound(f"{self.path}: blob {descriptor.digest} not found")
        return self._file.open(descriptor)

    def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob in bytes, None if it does not exist."""
        if self._file is None:
            return None if self._existing_files is None else self._existing_files.blob_size(digest)
        return self._file.size(digest)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the blob need not be written."""
        return descriptor.digest in self._carried.blobs or self.blob_size(descriptor.digest) == descriptor.size

    def put_blob(self, name: str, descriptor: Descriptor, opener: BlobOpener) -> None:
        """Write a blob of the source repository ``name``, unless the archive has it or it was carried before."""
        if holder := self._carried.blobs.get(descriptor.digest):
            self._omitted[descriptor.digest] = holder
            return
        if self._file is not None or self.blob_size(descriptor.digest) != descriptor.size:
            archive = self._open()
            if not archive.find(descriptor):
                archive.add(descriptor, opener())
        self._written.setdefault(descriptor.digest, name)

    def put_manifest(self, manifest: Manifest | IndexManifest) -> None:
        """Write a manifest."""
        if self._file is not None or self.blob_size(manifest.digest) != len(manifest.raw):
            self._open().add_bytes(manifest.raw)

    def _open(self) -> GrowingArchive:
        with self._lock:
            if self._file is None:
                from opmkit.imagetools.archive.growing import GrowingArchive  # slow to import: compression

                self._file = GrowingArchive(self.path)
            return self._file

    def _descriptor(self, archive: GrowingArchive, image: MirroredImage) -> Descriptor:
        size = archive.size(image.digest)
        if size is None:
            raise DiskError(
                f"{self.path}: image {image.name}@{image.digest} not found",
                hint=f"delete {archive.partial}, and run the command again",
            )
        manifest = read_manifest(self, Descriptor("", image.digest, size))
        return replace(manifest.descriptor, annotations={REF_NAME: image.name})


class _ArchiveRepository(LayoutReader):
    """The images of one source in an `ArchiveTarget`."""

    def __init__(self, target: ArchiveTarget, name: str) -> None:
        super().__init__(target, name)
        self._target = target

    def resolve(self, identifier: str) -> Descriptor:
        """Return the descriptor of an image by its tag, or of a manifest by its digest."""
        listed = None if is_digest(identifier) else self._target.listed_digest(f"{self.name}:{identifier}")
        if listed is None and not is_digest(identifier):
            raise NotFound(f"{self._target.path}: {self.name}:{identifier} not found")
        return super().resolve(identifier) if listed is None else Descriptor("", listed, 0)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the blob need not be written."""
        return self._target.has_blob(descriptor)

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Write a blob, unless the archive has it."""
        self._target.put_blob(self.name, descriptor, opener)

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Write a manifest; `ArchiveTarget.commit` lists it under its tag."""
        self._target.put_manifest(manifest)
        return manifest.descriptor


def _open_existing(path: Path) -> tuple[ArchivedLayout | None, MirrorDescription]:
    """Return the layout in an existing archive and its description; raise DiskError if the file is something else."""
    if not path.exists():
        return None, MirrorDescription()
    hint = "delete it, or write another file"
    if not path.is_file():
        raise DiskError(f"{path}: refusing to overwrite: not a file", hint=hint)
    from opmkit.imagetools.archive import ArchivedLayout, TarArchive

    archive = TarArchive.open(path)
    if DESCRIPTION_FILE not in archive:
        raise DiskError(f"{path}: refusing to overwrite: it is not the archive of a mirror", hint=hint)
    raw = archive.read(DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE)
    return ArchivedLayout(archive), MirrorDescription.parse(raw, f"{path}: {DESCRIPTION_FILE}")
