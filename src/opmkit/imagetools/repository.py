"""Interfaces of image sources and repositories, with verification, referrers, and shared tags."""

from __future__ import annotations

import io
import random
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec.structs import replace

from opmkit.core import interrupts
from opmkit.imagetools.errors import DigestMismatch, InvalidImage, NotFound, TagMoved
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, check_digest
from opmkit.imagetools.spec.descriptor import new_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import WriteableBuffer

    from opmkit.imagetools.spec import Descriptor


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


_MAX_ATTEMPTS = 40
_MAX_WAIT = 2.0


def update_tag(
    repository: Repository,
    tag: str,
    change: Callable[[Manifest | IndexManifest | None], Manifest | IndexManifest],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = interrupts.sleep,
) -> Descriptor:
    """Move a tag to what ``change`` returns for its current target, None if it does not exist.

    ``change`` must return its argument if it contains the change already. Registries cannot compare and move a tag in
    one request. After moving it, this function waits for longer than a competing writer probably needs from reading the
    tag to moving it, two to three times its own longest try, reads the tag, and starts again if the change was
    overwritten.

    Raises:
        TagMoved: Other writers keep moving the tag.
    """
    longest = 0.0
    for _ in range(_MAX_ATTEMPTS):
        started = clock()
        current = _read(repository, tag)
        changed = change(current)
        if current is not None and changed.digest == current.digest:
            return current.descriptor
        try:
            repository.put_manifest(changed, tag, replacing=current.digest if current else "")
        except TagMoved:
            wait = random.random()  # noqa: S311 (not a secret)
        else:
            wait = 2 + random.random()  # noqa: S311 (not a secret)
        longest = max(longest, clock() - started)
        sleep(min(wait * longest, _MAX_WAIT))
    raise TagMoved(f"tag {tag}: other writers moved it {_MAX_ATTEMPTS} times", hint="try again")


def _read(repository: Repository, tag: str) -> Manifest | IndexManifest | None:
    try:
        return repository.get_manifest(tag)
    except NotFound:
        return None


DIGEST_TAG = re.compile(r"sha256-[a-f0-9]{64}(\.[a-z]+)?")
"""Tags that stand for a digest: of indexes of referrers, and those in which cosign stores signatures."""
MAX_REFERRERS = 1 << 14
"""Referrers of one image."""


def digest_tag(digest: str, suffix: str = "") -> str:
    """Return the tag that stands for a digest, such as ``sha256-<hex>`` or ``sha256-<hex>.sig``.

    Without a suffix it names the index of referrers in registries that lack the referrers API.
    """
    return f"{check_digest(digest).replace(':', '-')}{suffix}"


def referrer_descriptor(manifest: Manifest | IndexManifest) -> Descriptor:
    """Return the descriptor that lists of referrers contain for an artifact."""
    artifact_type = manifest.artifact_type
    if not artifact_type and isinstance(manifest, Manifest):
        artifact_type = manifest.config.media_type
    return replace(manifest.descriptor, annotations=manifest.annotations, artifact_type=artifact_type)


def select_referrers(referrers: Iterable[Descriptor], artifact_type: str = "") -> tuple[Descriptor, ...]:
    """Return the descriptors of an artifact type ("" for all), each once."""
    unique = {referrer.digest: referrer for referrer in referrers}
    return tuple(item for item in unique.values() if artifact_type in ("", item.artifact_type))


def add_to_fallback_tag(repository: Repository, manifest: Manifest | IndexManifest) -> None:
    """List an artifact in the index that the tag of its subject's digest names.

    Registries without the referrers API require this of every client that stores an artifact.

    Raises:
        InvalidImage: The tag names something else than an index.
        TagMoved: Other writers keep moving the tag.
    """
    if manifest.subject is None:
        return
    tag, descriptor = digest_tag(manifest.subject.digest), referrer_descriptor(manifest)

    def add(current: Manifest | IndexManifest | None) -> IndexManifest:
        if isinstance(current, Manifest):
            raise InvalidImage(
                f"tag {tag}: invalid list of referrers: expected an image index", hint="delete the tag, and try again"
            )
        listed = current.manifests if current else ()
        if current and any(item.digest == descriptor.digest for item in listed):
            return current
        return IndexManifest.build([*listed, descriptor], current.annotations if current else None)

    update_tag(repository, tag, add)
