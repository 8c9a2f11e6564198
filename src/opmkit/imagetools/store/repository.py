"""An OCI image layout on disk as a writable repository."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.imagetools.repository import check_tag, referrer_descriptor
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
    """The images of a layout on disk, as a Repository; the first write creates the layout."""

    def __init__(self, path: Path, name: str = "", *, private: bool = False) -> None:
        """Use the layout at a path; for ``name`` see LayoutReader, for ``private`` Layout."""
        self.layout = Layout(path, private)
        super().__init__(self.layout, name)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether a blob with this digest and size exists."""
        return self.layout.blob_size(descriptor.digest) == descriptor.size

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Store a blob unless an intact copy exists."""
        if self.layout.find_blob(descriptor) is None:
            self.layout.create()
            self.layout.ingest(descriptor, opener())

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest and, once it and its children are synced to disk, update the tag.

        A manifest without a tag is listed without a name until an index that refers to it is stored.

        Raises:
            DiskError: A child does not exist, or a file cannot be written.
            TagMoved: The tag is not at ``replacing``.
        """
        descriptor = manifest.descriptor
        self.put_blob(descriptor, partial(io.BytesIO, manifest.raw))
        children = [child.digest for child in manifest.children if not media_types.is_foreign(child.media_type)]
        named = replace(
            descriptor,
            annotations={REF_NAME: self._full_name(tag)} if tag else {},
            artifact_type=referrer_descriptor(manifest).artifact_type if manifest.subject else "",
        )

        def update(manifests: Sequence[Descriptor]) -> Sequence[Descriptor]:
            if tag and replacing is not None:  # the tag cannot move after this check: the layout is locked
                check_tag(self, tag, replacing, descriptor.digest)
            return _add_to_index(named, children, manifests)

        self.layout.update_index(update, required=[*children, descriptor.digest])
        return descriptor


def _add_to_index(new: Descriptor, children: Sequence[str], manifests: Sequence[Descriptor]) -> list[Descriptor]:
    """Return the manifests with ``new``, without others of its name and nameless ones that are listed otherwise."""
    name = new.annotations.get(REF_NAME)
    covered = {*children, new.digest} if name else set(children)

    def is_retained(manifest: Descriptor) -> bool:
        if REF_NAME in manifest.annotations:
            return manifest.annotations[REF_NAME] != name
        return manifest.digest not in covered

    retained = [manifest for manifest in manifests if is_retained(manifest)]
    is_listed = name is None and any(manifest.digest == new.digest for manifest in retained)
    return retained if is_listed else [*retained, new]
