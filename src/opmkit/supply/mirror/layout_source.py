"""A directory or archive that a mirror was written to, as the source of another mirror."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors
from opmkit.imagetools.archive import ArchivedLayout, TarArchive
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.reference import LayoutReference, OciArchiveReference
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor
from opmkit.imagetools.store.layout import Layout
from opmkit.imagetools.store.reader import LayoutReader
from opmkit.supply.mirror.description import DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE, MirrorDescription

if TYPE_CHECKING:
    from opmkit.imagetools.reference import ImageReference, Reference
    from opmkit.imagetools.store.reader import LayoutFiles


class LayoutSource:
    """The images of a directory or archive; a `MirrorSource`."""

    def __init__(self, files: LayoutFiles, description: MirrorDescription) -> None:
        """Read blobs from ``files``."""
        self.files = files
        self.description = description

    def repository(self, reference: Reference, /) -> LayoutReader:
        """Return the images of a source."""
        return _SourceReader(self, reference.name)


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
    path = Path(text)
    if isinstance(reference, LayoutReference | OciArchiveReference):
        if reference.identifier:
            return None
        path = reference.path
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
    archive = TarArchive.open(path)
    if DESCRIPTION_FILE not in archive:
        return None
    raw = archive.read(DESCRIPTION_FILE, MAX_DESCRIPTION_SIZE)
    return LayoutSource(ArchivedLayout(archive), MirrorDescription.parse(raw, f"{path}: {DESCRIPTION_FILE}"))
