"""What a place that holds images can do: a repository of a registry, a layout on disk, or an archive to read from."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from opmkit.imagetools.errors import DigestMismatch, NotFound, TagMoved
from opmkit.imagetools.spec.digests import new_hash

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest

BlobOpener = Callable[[], BinaryIO]
CHUNK_SIZE = 1 << 20
"""Bytes of a blob that are handled at a time: with smaller pieces threads get into each other's way."""
TAG_MOVE_WINDOW = 1.0
"""How long it may take from asking a registry what a tag names to the tag's being moved."""


class Source(Protocol):
    """A place that images are read from. Every method may be called from several threads at once.

    Identifiers are tags or digests. All methods raise NotFound for what is not there and the place's own
    ImageToolsError (StoreError, RegistryUnavailable, AuthenticationFailed...) for what goes wrong.
    """

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor of the manifest or index that the tag or digest names now."""
        ...

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """The manifest or index, its bytes verified against the digest."""
        ...

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified, in memory."""
        ...

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content as a stream that raises DigestMismatch at its end if it isn't what was promised."""
        ...

    def tags(self) -> Iterator[str]:
        """The tags there are."""
        ...


class Repository(Source, Protocol):
    """A place where images live: it can be written to as well."""

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the blob is there."""
        ...

    def put_blob(self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: Source | None = None) -> None:
        """Make the blob be there: not at all if it is, by mounting it from a near repository, else by sending it."""
        ...

    def put_manifest(
        self, manifest: Manifest | IndexManifest, tag: str | None = None, *, replacing: str | None = None
    ) -> Descriptor:
        """Store a manifest whose parts are there already; the tag, where given, moves last.

        With ``replacing``, a digest, the tag is only moved if it names that, or, if that is "", nothing; or if it names
        the manifest already. Otherwise TagMoved is raised. A layout makes this one step. A registry can't: it is asked
        right before, and TAG_MOVE_WINDOW is how long the two requests may take together.
        """
        ...


def check_tag(repository: Repository, tag: str, replacing: str, new: str) -> None:
    """Raise TagMoved unless the tag names ``replacing`` ("": nothing) or ``new`` already; both are digests."""
    try:
        now = repository.resolve(tag).digest
    except NotFound:
        now = ""
    if now not in (replacing, new):
        raise TagMoved(
            f"tag {tag} was moved by another writer in the meantime: it names {now or 'nothing'} now, not "
            f"{replacing or 'nothing'} as before",
            hint="look at what it names now, and start again from that",
        )


def verify_stream(stream: BinaryIO, descriptor: Descriptor, place: str = "") -> BinaryIO:
    """``stream``, checked while it is read: DigestMismatch as soon as size or digest can't be the descriptor's.

    Who reads all of the content has it verified; who stops earlier has not. Closing it closes ``stream``. ``place``,
    where it is given, names where the blob is in the error. A stream that is checked so already, and untouched, is
    given as it is: hashing is what a transfer takes longest for.
    """
    inner = stream.raw if isinstance(stream, io.BufferedReader) else None
    if isinstance(inner, _VerifiedStream) and inner.is_for(descriptor):
        return stream
    return io.BufferedReader(_VerifiedStream(stream, descriptor, place), max(1, min(descriptor.size, CHUNK_SIZE)))


class _VerifiedStream(io.RawIOBase):
    def __init__(self, stream: BinaryIO, descriptor: Descriptor, place: str) -> None:
        self._stream = stream
        self._place = f"{place}: " if place else ""
        self._descriptor = descriptor
        self._hash = new_hash(descriptor.digest)
        self._left = descriptor.size

    def is_for(self, descriptor: Descriptor) -> bool:
        """Whether it checks against this descriptor, from the first byte, which has still to come."""
        return (self._descriptor.digest, self._left) == (descriptor.digest, descriptor.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._left -= len(data)
        if self._left < 0 or (not data and self._left > 0):
            raise self._mismatch(f"{'more' if self._left < 0 else 'fewer'} than the {self._descriptor.size} bytes")
        self._hash.update(data)
        if not self._left and self._hash.hexdigest() != self._descriptor.digest.partition(":")[2]:
            raise self._mismatch("another digest than")
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _mismatch(self, what: str) -> DigestMismatch:
        return DigestMismatch(
            f"{self._place}blob {self._descriptor.digest}: the content has {what} promised",
            hint="try again; if it stays so, the copy there is damaged: push it anew",
        )
