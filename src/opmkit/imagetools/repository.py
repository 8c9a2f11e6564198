"""Interfaces of image sources and repositories, and verification of blobs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from opmkit.imagetools.errors import DigestMismatch, NotFound, TagMoved
from opmkit.imagetools.spec.descriptor import new_hash

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest

BlobOpener = Callable[[], BinaryIO]
CHUNK_SIZE = 1 << 20
"""Bytes of a blob to process at a time; with smaller chunks threads contend for the interpreter lock."""
TAG_MOVE_WINDOW = 1.0
"""Seconds within which a registry should move a tag after the check of its old target."""


class ImageSource(Protocol):
    """A place to read images from: a registry, an image layout, an archive or the storage of an engine.

    Identifiers are tags or digests. All methods are thread-safe. They raise NotFound, and an ImageToolsError of the
    place (DiskError, RegistryUnavailable, AuthenticationFailed...) for failures.
    """

    def resolve(self, identifier: str) -> Descriptor:
        """Return the descriptor of the manifest or index that the tag or digest currently names."""
        ...

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """Return the manifest or index, verified against its digest."""
        ...

    def get_config(self, descriptor: Descriptor) -> bytes:
        """Read a small blob into memory and verify it."""
        ...

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob as a stream that raises DigestMismatch at its end if the content does not match."""
        ...

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """List the artifacts, such as signatures, whose subject is ``digest``.

        The descriptors contain the artifact's type and annotations as far as the place knows them.

        Args:
            digest: The digest of an image or index, which need not exist.
            artifact_type: The type to list, or "" for all.
        """
        ...

    def tags(self) -> Iterator[str]:
        """List the tags."""
        ...


class Repository(ImageSource, Protocol):
    """A place to read images from and write them to."""

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the blob exists."""
        ...

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None) -> None:
        """Store a blob unless it exists, by mounting it from ``mount_from`` if possible, else by sending it."""
        ...

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest whose blobs and child manifests exist, then move the tag, if given.

        An artifact with a subject is listed by `referrers` from then on.

        Args:
            manifest: The manifest or index.
            tag: The tag to create or move.
            replacing: The digest that the tag must currently name, or "" if it must not exist. A tag that already names
                ``manifest`` is accepted. Image layouts check and move the tag atomically. Registries cannot: the tag
                is checked right before, and TAG_MOVE_WINDOW limits the time that both requests should take.

        Raises:
            TagMoved: The tag names something else than ``replacing``.
        """
        ...


def check_tag(repository: Repository, tag: str, replacing: str, new: str) -> None:
    """Raise TagMoved unless the tag names the digest ``replacing`` ("" if it must not exist) or ``new``."""
    try:
        current = repository.resolve(tag).digest
    except NotFound:
        current = ""
    if current not in (replacing, new):
        raise TagMoved(
            f"tag {tag} was moved by another writer in the meantime: expected {replacing or 'no image'}, "
            f"found {current or 'no image'}",
            hint="inspect the image that it names now, and run the command again on top of it",
        )


def verify_stream(stream: BinaryIO, descriptor: Descriptor, location: str = "") -> BinaryIO:
    """Wrap ``stream`` so that reading raises DigestMismatch as soon as size or digest cannot match any more.

    Only content that is read to its end is verified. Closing the result closes ``stream``. A stream that already
    verifies the descriptor, and was not read yet, is returned unchanged, since hashing dominates the time of transfers.

    Args:
        stream: The content.
        descriptor: The expected digest and size.
        location: The name of the repository or file, for the error message.
    """
    raw = stream.raw if isinstance(stream, io.BufferedReader) else None
    if isinstance(raw, _VerifyingStream) and raw.is_unread_for(descriptor):
        return stream
    return io.BufferedReader(_VerifyingStream(stream, descriptor, location), max(1, min(descriptor.size, CHUNK_SIZE)))


class _VerifyingStream(io.RawIOBase):
    def __init__(self, stream: BinaryIO, descriptor: Descriptor, location: str) -> None:
        self._stream = stream
        self._subject = f"{location}: blob {descriptor.digest}" if location else f"blob {descriptor.digest}"
        self._descriptor = descriptor
        self._hash = new_hash(descriptor.digest)
        self._left = descriptor.size

    def is_unread_for(self, descriptor: Descriptor) -> bool:
        return (self._descriptor.digest, self._left) == (descriptor.digest, descriptor.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._left -= len(data)
        if self._left < 0 or (not data and self._left > 0):
            comparison = "more" if self._left < 0 else "fewer"
            raise self._mismatch(f"size mismatch: {comparison} than the expected {self._descriptor.size} bytes")
        self._hash.update(data)
        if not self._left and self._hash.hexdigest() != self._descriptor.digest.partition(":")[2]:
            raise self._mismatch("digest mismatch")
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _mismatch(self, problem: str) -> DigestMismatch:
        return DigestMismatch(
            f"{self._subject}: {problem}",
            hint="try again; if the error persists, the stored copy is damaged: push the image again",
        )
