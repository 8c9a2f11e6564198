"""Read the images of an OCI image layout, on disk or in an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.repository import DIGEST_TAG, referrer_descriptor, select_referrers
from opmkit.imagetools.spec import MAX_CONFIG_SIZE, MAX_MANIFEST_SIZE, Descriptor, is_digest, parse_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.spec import IndexManifest, Manifest

REF_NAME = "org.opencontainers.image.ref.name"


class LayoutFiles(Protocol):
    """The files of an OCI image layout (image-spec 1.1, image-layout.md)."""

    @property
    def location(self) -> str:
        """The path of the layout or archive, for errors."""
        ...

    def read_index(self) -> IndexManifest:
        """Return the content of ``index.json``; raise NotFound if there is no layout."""
        ...

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end; raise NotFound if it does not exist."""
        ...

    def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob in bytes, None if it does not exist."""
        ...


def read_manifest(files: LayoutFiles, descriptor: Descriptor) -> Manifest | IndexManifest:
    """Return a verified manifest or index manifest.

    Raises:
        NotFound: The blob does not exist.
        InvalidImage: The blob is not a valid manifest.
        LimitExceeded: The manifest is larger than MAX_MANIFEST_SIZE.
    """
    if descriptor.size > MAX_MANIFEST_SIZE:
        raise LimitExceeded(f"manifest {descriptor.digest}: exceeds the limit of {MAX_MANIFEST_SIZE} bytes")
    with files.open_blob(descriptor) as stream:
        return parse_manifest(stream.read(), descriptor.media_type)


def is_attached(manifest: Descriptor) -> bool:
    """Return whether an entry of ``index.json`` is a signature or another artifact that belongs to an image."""
    name = manifest.annotations.get(REF_NAME, "").rpartition(":")[2]
    return bool(manifest.artifact_type) or DIGEST_TAG.fullmatch(name) is not None


class LayoutReader:
    """The images of a layout, as an ImageSource.

    With ``name`` these are the images whose names in the layout are ``name:TAG``, as in the embedded store. Without it
    a tag is a complete name in the layout. The identifier "" stands for the only image of the layout.
    """

    def __init__(self, files: LayoutFiles, name: str = "") -> None:
        """Read from a layout, which may be created later."""
        self._files = files
        self.name = name
        self._subjects: dict[str, tuple[str, Descriptor]] = {}

    def resolve(self, identifier: str) -> Descriptor:
        """Return the descriptor of a tag or digest; raise NotFound, whose hint lists the tags."""
        manifests = self._files.read_index().manifests
        if is_digest(identifier):
            return self._resolve_digest(identifier, manifests)
        if identifier:
            wanted = self._full_name(identifier)
            matches = [manifest for manifest in manifests if manifest.annotations.get(REF_NAME) == wanted][:1]
        else:
            images = {manifest.digest: manifest for manifest in manifests if not is_attached(manifest)}
            matches = list(images.values())
        if len(matches) == 1:
            return matches[0]
        tags = ", ".join(self.tags())
        hint = f"the available tags are: {tags}" if tags else "no image of this name has been stored here yet"
        if identifier:
            raise NotFound(f"{self._files.location}: image {self._full_name(identifier)} not found", hint=hint)
        if matches:
            raise NotFound(f"{self._files.location}: contains more than one image", hint=f"add :TAG or @DIGEST; {hint}")
        raise NotFound(f"{self._files.location}: contains no image")

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """Return the verified manifest or index manifest of a tag or digest."""
        return read_manifest(self._files, self.resolve(identifier))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """Return a verified blob; raise LimitExceeded above MAX_CONFIG_SIZE bytes."""
        if descriptor.size > MAX_CONFIG_SIZE:
            raise LimitExceeded(f"config {descriptor.digest}: exceeds the limit of {MAX_CONFIG_SIZE} bytes")
        with self.open_blob(descriptor) as stream:
            return stream.read()

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob, which is verified when read to its end."""
        return self._files.open_blob(descriptor)

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """List the artifacts with a subject that ``index.json`` lists."""
        listed = (self._subject(manifest) for manifest in self._files.read_index().manifests)
        return select_referrers((artifact for subject, artifact in listed if subject == digest), artifact_type)

    def tags(self) -> Iterator[str]:
        """Yield the tags in alphabetical order."""
        prefix = f"{self.name}:" if self.name else ""
        names = {manifest.annotations.get(REF_NAME, "") for manifest in self._files.read_index().manifests}
        return (name.removeprefix(prefix) for name in sorted(names - {""}) if name.startswith(prefix))

    def _subject(self, listed: Descriptor) -> tuple[str, Descriptor]:
        """Return the digest of a manifest's subject, or "" if it has none, and its descriptor as a referrer."""
        if listed.digest not in self._subjects:
            manifest = read_manifest(self._files, listed)
            subject = manifest.subject.digest if manifest.subject else ""
            self._subjects[listed.digest] = (subject, referrer_descriptor(manifest))
        return self._subjects[listed.digest]

    def _full_name(self, tag: str) -> str:
        return f"{self.name}:{tag}" if self.name else tag

    def _resolve_digest(self, digest: str, manifests: Sequence[Descriptor]) -> Descriptor:
        """Return the descriptor of a manifest that ``index.json`` lists, or that is only referred to by an index."""
        for manifest in manifests:
            if manifest.digest == digest:
                return manifest
        size = self._files.blob_size(digest)
        if size is None or size > MAX_MANIFEST_SIZE:
            raise NotFound(f"{self._files.location}: manifest {digest} not found", hint="copy the image there first")
        manifest_or_index = read_manifest(self._files, Descriptor("", digest, size))
        return replace(manifest_or_index.descriptor, digest=digest)
