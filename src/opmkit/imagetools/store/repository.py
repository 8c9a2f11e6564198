"""An OCI layout on disk as a place where images live."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from opmkit.imagetools.repository import check_tag
from opmkit.imagetools.spec import (
    Descriptor,
    IndexManifest,
    Manifest,
    media_types,
)
from opmkit.imagetools.store.layout import Layout
from opmkit.imagetools.store.reader import REF_NAME, LayoutReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.imagetools.repository import BlobOpener, ImageSource


class LayoutRepository(LayoutReader):
    """The images of a layout on disk, as a Repository; the layout is made by the first write."""

    def __init__(self, path: Path, name: str = "", *, private: bool = False) -> None:
        """Take the layout at the path; ``name`` is as LayoutReader has it, ``private`` as Layout has it."""
        self.layout = Layout(path, private)
        super().__init__(self.layout, name)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether there is a blob of that digest and size."""
        return self.layout.blob_size(descriptor.digest) == descriptor.size

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Copy the blob in, unless it is there, whole."""
        if self.layout.cached(descriptor) is None:
            self.layout.make()
            self.layout.ingest(descriptor, opener())

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest and, once it and its parts are on the disk, let the tag name it.

        Without a tag it is listed without a name, until an index that refers to it is stored. Raises StoreError if a
        part isn't there.
        """
        descriptor = manifest.descriptor
        self.put_blob(descriptor, partial(io.BytesIO, manifest.raw))
        parts = [part.digest for part in manifest.children if not media_types.is_foreign(part.media_type)]
        named = replace(descriptor, annotations={REF_NAME: self._full_name(tag)} if tag else {})

        def change(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            if tag and replacing is not None:  # nobody moves it now: the layout is locked
                check_tag(self, tag, replacing, descriptor.digest)
            return _listed(named, parts, manifests)

        self.layout.change_index(change, needs=[*parts, descriptor.digest])
        return descriptor


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
