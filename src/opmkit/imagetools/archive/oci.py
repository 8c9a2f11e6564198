"""Tar archives of OCI image layouts, as skopeo, podman and buildah know them by ``oci-archive:``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.copy import all_blobs, all_manifests
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.repository import CHUNK_SIZE, verify_stream
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, IndexManifest, check_digest
from opmkit.imagetools.store.layout import INDEX, VERSION, VERSION_CONTENT, parse_index
from opmkit.imagetools.store.reader import REF_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.archive.reader import TarArchive
    from opmkit.imagetools.archive.writer import TarWriter
    from opmkit.imagetools.copy import Blob
    from opmkit.imagetools.image import Image, ImageIndex


class ArchivedLayout:
    """The files of a layout in an archive, for a LayoutReader."""

    def __init__(self, archive: TarArchive) -> None:
        """Take the archive; raises InvalidImage if there is no layout in it."""
        self._archive = archive
        if VERSION not in archive:
            hint = "name an archive such as 'skopeo copy ... oci-archive:FILE' makes"
            if "manifest.json" in archive:
                hint = f"it is one of docker's: write docker-archive:{archive.place}"
            raise archive.invalid("there is no OCI image layout in it", hint)

    @property
    def place(self) -> str:
        """The archive's name."""
        return self._archive.place

    def read_index(self) -> IndexManifest:
        """What the layout names."""
        return parse_index(self._archive.read(INDEX, MAX_MANIFEST_SIZE), f"{self.place}: {INDEX}")

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content, verified when read to its end; raises NotFound."""
        name = _blob_name(descriptor.digest)
        if name not in self._archive:
            hint = "the archive is incomplete: make it anew"
            raise NotFound(f"{self.place}: there is no member {name} in it", hint=hint)
        return verify_stream(self._archive.stream(name), descriptor, self.place)

    def blob_size(self, digest: str) -> int | None:
        """The size of a blob in bytes, None where it isn't there."""
        name = _blob_name(digest)
        return self._archive.member(name).size if name in self._archive else None


def write_oci_archive(
    image: Image | ImageIndex, writer: TarWriter, name: str = "", *, progress: Progress = NO_PROGRESS
) -> Descriptor:
    """Write an archive of one image, its bytes kept and its blobs in the order of their digests.

    Raises what the image's source raises.
    """
    manifests = all_manifests(image)
    top = manifests[-1].descriptor
    writer.add(VERSION, VERSION_CONTENT)
    writer.add(INDEX, IndexManifest.build([replace(top, annotations={REF_NAME: name} if name else {})]).raw)
    blobs = {blob.descriptor.digest: blob for blob in all_blobs(image)}
    raws = {manifest.digest: manifest.raw for manifest in manifests}
    progress.begin("Writing", sum(blob.descriptor.size for blob in blobs.values()))
    try:
        for digest in sorted({*blobs, *raws}):
            pieces = (raws[digest],) if digest in raws else _content(blobs[digest], progress)
            writer.stream(_blob_name(digest), pieces)
    finally:
        progress.end()
    return top


def _content(blob: Blob, progress: Progress) -> Iterator[bytes]:
    with verify_stream(blob.opener(), blob.descriptor) as stream:
        while data := stream.read(CHUNK_SIZE):
            yield data
            progress.advance(len(data))


def _blob_name(digest: str) -> str:
    algorithm, _, encoded = check_digest(digest).partition(":")
    return f"blobs/{algorithm}/{encoded}"
