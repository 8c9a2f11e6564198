"""Reading the images of an OCI image layout, wherever its files are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Protocol

from opmkit.imagetools.errors import LimitExceeded, NotFound
from opmkit.imagetools.spec import MAX_CONFIG_SIZE, MAX_MANIFEST_SIZE, Descriptor, is_digest, parse_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.spec import IndexManifest, Manifest

REF_NAME = "org.opencontainers.image.ref.name"


class LayoutFiles(Protocol):
    """The files of a layout (image-spec 1.1, image-layout.md); ``place`` names it in errors."""

    @property
    def place(self) -> str:
        """Where the layout is."""
        ...

    def read_index(self) -> IndexManifest:
        """What the layout names; raises NotFound where there is no layout."""
        ...

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content, verified when read to its end; raises NotFound."""
        ...

    def blob_size(self, digest: str) -> int | None:
        """The size of a blob in bytes, None where it isn't there."""
        ...


def read_manifest(files: LayoutFiles, descriptor: Descriptor) -> Manifest | IndexManifest:
    """A manifest or index by its descriptor, verified; raises NotFound, InvalidImage and LimitExceeded."""
    if descriptor.size > MAX_MANIFEST_SIZE:
        raise LimitExceeded(f"manifest {descriptor.digest} is longer than the bound of {MAX_MANIFEST_SIZE} bytes")
    with files.open_blob(descriptor) as stream:
        return parse_manifest(stream.read(), descriptor.media_type)


class LayoutReader:
    """The images of a layout, as a ImageSource.

    With ``name`` it shows the images whose names in the layout are ``name:TAG``, as in the embedded store; without,
    tags are names just as they stand in the layout. The identifier "" is the only image that there is.
    """

    def __init__(self, files: LayoutFiles, name: str = "") -> None:
        """Take the layout, which need not be there yet."""
        self._files = files
        self.name = name

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor of what the tag or digest names; raises NotFound with the tags there are in its hint."""
        manifests = self._files.read_index().manifests
        if is_digest(identifier):
            return self._by_digest(identifier, manifests)
        if identifier:
            wanted = self._full_name(identifier)
            found = [manifest for manifest in manifests if manifest.annotations.get(REF_NAME) == wanted][:1]
        else:
            found = list({manifest.digest: manifest for manifest in manifests}.values())
        if len(found) == 1:
            return found[0]
        place = f"{self._files.place}: "
        tags = ", ".join(self.tags())
        hint = f"the available tags are: {tags}" if tags else "no image of this name has been stored here yet"
        if identifier:
            raise NotFound(f"{place}image {self._full_name(identifier)} not found", hint=hint)
        problem = "contains more than one image" if found else "contains no image"
        raise NotFound(place + problem, hint=f"name one by :TAG or @DIGEST; {hint}" if found else "")

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """The manifest or index that the tag or digest names, verified."""
        return read_manifest(self._files, self.resolve(identifier))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified; raises LimitExceeded above MAX_CONFIG_SIZE."""
        if descriptor.size > MAX_CONFIG_SIZE:
            raise LimitExceeded(f"config {descriptor.digest} is longer than the bound of {MAX_CONFIG_SIZE} bytes")
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """The blob's content, verified when read to its end."""
        return self._files.open_blob(descriptor)

    def tags(self) -> Iterator[str]:
        """The tags there are, sorted."""
        prefix = f"{self.name}:" if self.name else ""
        names = {manifest.annotations.get(REF_NAME, "") for manifest in self._files.read_index().manifests}
        return (name.removeprefix(prefix) for name in sorted(names - {""}) if name.startswith(prefix))

    def _full_name(self, tag: str) -> str:
        return f"{self.name}:{tag}" if self.name else tag

    def _by_digest(self, digest: str, manifests: Sequence[Descriptor]) -> Descriptor:
        """The descriptor of a manifest that is listed, or that an index lists and so is only known by its content."""
        for manifest in manifests:
            if manifest.digest == digest:
                return manifest
        size = self._files.blob_size(digest)
        if size is None or size > MAX_MANIFEST_SIZE:
            raise NotFound(f"{self._files.place}: no manifest {digest}", hint="copy the image there first")
        manifest_like = read_manifest(self._files, Descriptor("", digest, size))
        return replace(manifest_like.descriptor, digest=digest)
