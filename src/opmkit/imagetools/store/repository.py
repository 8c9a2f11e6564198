"""An OCI layout on disk as a place where images live."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.errors import LimitExceeded, NotFound
from opmkit.imagetools.repository import check_tag
from opmkit.imagetools.spec import (
    CONFIG_SIZE,
    MANIFEST_SIZE,
    Descriptor,
    ImageIndex,
    Manifest,
    is_digest,
    mediatypes,
)
from opmkit.imagetools.store.disk import disk_errors
from opmkit.imagetools.store.layout import REF_NAME, Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from opmkit.imagetools.repository import BlobOpener, Repository


class LayoutRepository:
    """The images of a layout, as a Repository; the layout is made by the first write.

    With ``name`` it shows the images whose names in the layout are ``name:TAG``, as in the embedded store; without,
    tags are names just as they stand in the layout. The identifier "" is the only image that there is.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        """Take the layout at the path; it need not be there yet."""
        self.layout = Layout(path)
        self.name = name

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor of what the tag or digest names; raises NotFound with the tags there are as advice."""
        manifests = self.layout.read_index().manifests
        if is_digest(identifier):
            return self._by_digest(identifier, manifests)
        if identifier:
            wanted = self._full_name(identifier)
            found = [manifest for manifest in manifests if manifest.annotations.get(REF_NAME) == wanted][:1]
        else:
            found = list({manifest.digest: manifest for manifest in manifests}.values())
        if len(found) == 1:
            return found[0]
        place = f"{self.layout.path}: "
        tags = ", ".join(self.tags()) or "none"
        if identifier:
            raise NotFound(f"{place}no image {self._full_name(identifier)!r}", advice=f"the tags there are: {tags}")
        problem = "more than one image in the layout" if found else "no image in the layout"
        raise NotFound(place + problem, advice=f"name one as oci:DIR:TAG or oci:DIR@DIGEST; the tags there are: {tags}")

    def get_manifest(self, identifier: str) -> Manifest | ImageIndex:
        """The manifest or index that the tag or digest names, verified."""
        return self.layout.read_manifest(self.resolve(identifier))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified; raises LimitExceeded above CONFIG_SIZE."""
        if descriptor.size > CONFIG_SIZE:
            raise LimitExceeded(f"config {descriptor.digest} is longer than the bound of {CONFIG_SIZE} bytes")
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """The blob's content, verified when read to its end."""
        return self.layout.open_blob(descriptor)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether there is a blob of that digest and size."""
        path = self.layout.blob_path(descriptor.digest)
        with disk_errors(path):
            return path.is_file() and path.stat().st_size == descriptor.size

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: Repository | None = None) -> None:
        """Copy the blob in, unless it is there, whole."""
        if self.layout.cached(descriptor) is None:
            self.layout.make()
            self.layout.ingest(descriptor, opener())

    def put_manifest(
        self, manifest: Manifest | ImageIndex, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest and, once it and its parts are on the disk, let the tag name it.

        Without a tag it is listed without a name, until an index that refers to it is stored. Raises StoreError if a
        part isn't there.
        """
        descriptor = manifest.descriptor
        self.put_blob(descriptor, partial(io.BytesIO, manifest.raw))
        parts = [part.digest for part in manifest.parts if not mediatypes.is_foreign(part.media_type)]
        named = replace(descriptor, annotations={REF_NAME: self._full_name(tag)} if tag else {})

        def change(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            if tag and replacing is not None:  # nobody moves it now: the layout is locked
                check_tag(self, tag, replacing, descriptor.digest)
            return _listed(named, parts, manifests)

        self.layout.change_index(change, needs=[*parts, descriptor.digest])
        return descriptor

    def tags(self) -> Iterator[str]:
        """The tags there are, sorted."""
        prefix = f"{self.name}:" if self.name else ""
        names = {manifest.annotations.get(REF_NAME, "") for manifest in self.layout.read_index().manifests}
        return (name.removeprefix(prefix) for name in sorted(names - {""}) if name.startswith(prefix))

    def _full_name(self, tag: str) -> str:
        return f"{self.name}:{tag}" if self.name else tag

    def _by_digest(self, digest: str, manifests: Sequence[Descriptor]) -> Descriptor:
        """The descriptor of a manifest that is listed, or that an index lists and so is only known by its content."""
        for manifest in manifests:
            if manifest.digest == digest:
                return manifest
        path = self.layout.blob_path(digest)
        with disk_errors(path):
            size = path.stat().st_size if path.is_file() else MANIFEST_SIZE + 1
        if size > MANIFEST_SIZE:
            raise NotFound(f"{self.layout.path}: no manifest {digest}", advice="copy the image there first")
        manifest_like = self.layout.read_manifest(Descriptor("", digest, size))
        return replace(manifest_like.descriptor, digest=digest)


def _listed(new: Descriptor, parts: Sequence[str], manifests: Sequence[Descriptor]) -> list[Descriptor]:
    """The list with ``new`` on it: its name is no one else's, and nameless are only those not listed otherwise."""
    name = new.annotations.get(REF_NAME)
    covered = {*parts, new.digest} if name else set(parts)

    def stays(manifest: Descriptor) -> bool:
        if REF_NAME in manifest.annotations:
            return manifest.annotations[REF_NAME] != name
        return manifest.digest not in covered

    kept = [manifest for manifest in manifests if stays(manifest)]
    is_listed = name is None and any(manifest.digest == new.digest for manifest in kept)
    return kept if is_listed else [*kept, new]
