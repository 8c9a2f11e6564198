"""Tar archives of OCI image layouts, the ``oci-archive:`` of skopeo, podman and buildah."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.copy import all_blobs, all_manifests
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.repository import CHUNK_SIZE, verify_stream
from opmkit.imagetools.spec import Descriptor, IndexManifest, check_digest
from opmkit.imagetools.store.layout import LAYOUT_CONTENT, MAX_INDEX_SIZE, parse_index
from opmkit.imagetools.store.layout_files import INDEX_FILE, LAYOUT_FILE
from opmkit.imagetools.store.reader import REF_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.archive.reader import TarArchive
    from opmkit.imagetools.archive.writer import TarWriter
    from opmkit.imagetools.copy import Blob
    from opmkit.imagetools.image import Image, ImageIndex


class ArchivedLayout:
    """An OCI layout in an archive, as LayoutFiles."""

    def __init__(self, archive: TarArchive) -> None:
        """Open the layout; raise InvalidImage if the archive does not contain one."""
        self._archive = archive
        if LAYOUT_FILE not in archive:
            hint = "pass an archive such as 'skopeo copy ... oci-archive:FILE' creates"
            if "manifest.json" in archive:
                hint = f"use docker-archive:{archive.location}"
            raise archive.invalid("the archive does not contain an OCI layout", hint)

    @property
    def location(self) -> str:
        """The name of the archive, for errors."""
        return self._archive.location

    def read_index(self) -> IndexManifest:
        """Return the content of the layout's ``index.json``."""
        return parse_index(self._archive.read(INDEX_FILE, MAX_INDEX_SIZE), f"{self.location}: {INDEX_FILE}")

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end; raise NotFound if it does not exist."""
        name = _blob_name(descriptor.digest)
        if name not in self._archive:
            raise NotFound(f"{self.location}: member {name} not found", hint="create the archive again")
        return verify_stream(self._archive.stream(name), descriptor, self.location)

    def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob in bytes, None if it does not exist."""
        name = _blob_name(digest)
        return self._archive.member(name).size if name in self._archive else None


def write_oci_archive(
    image: Image | ImageIndex, writer: TarWriter, name: str = "", *, progress: Progress = NO_PROGRESS
) -> Descriptor:
    """Write an archive of one image with unchanged digests, and blobs in the order of their digests.

    Errors of the image's source are passed on.

    Returns:
        The descriptor of the image.
    """
    manifests = all_manifests(image)
    descriptor = manifests[-1].descriptor
    writer.add(LAYOUT_FILE, LAYOUT_CONTENT)
    index = IndexManifest.build([replace(descriptor, annotations={REF_NAME: name} if name else {})])
    writer.add(INDEX_FILE, index.raw)
    blobs = {blob.descriptor.digest: blob for blob in all_blobs(image)}
    manifest_contents = {manifest.digest: manifest.raw for manifest in manifests}
    progress.begin("Writing", sum(blob.descriptor.size for blob in blobs.values()))
    try:
        for digest in sorted({*blobs, *manifest_contents}):
            if digest in manifest_contents:
                writer.add(_blob_name(digest), manifest_contents[digest])
            else:
                writer.stream(_blob_name(digest), _content(blobs[digest], progress))
    finally:
        progress.end()
    return descriptor


def _content(blob: Blob, progress: Progress) -> Iterator[bytes]:
    with verify_stream(blob.opener(), blob.descriptor) as stream:
        while data := stream.read(CHUNK_SIZE):
            yield data
            progress.advance(len(data))


def _blob_name(digest: str) -> str:
    algorithm, _, encoded = check_digest(digest).partition(":")
    return f"blobs/{algorithm}/{encoded}"
