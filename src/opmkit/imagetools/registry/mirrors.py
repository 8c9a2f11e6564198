"""Repositories that are read from mirrors."""

from __future__ import annotations

import io
import logging
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import DigestMismatch, ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.repository import verify_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.imagetools.registry.blobs import BlobStream
    from opmkit.imagetools.registry.messages import Response
    from opmkit.imagetools.registry_config import RepositoryLocation
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest

T = TypeVar("T")
_log = logging.getLogger(__name__)


class MirroredRepository(RegistryRepository):
    """A repository that is read from the first of several locations that has the content, and written to itself.

    The location that succeeded last is tried first. A mirror that fails otherwise than by 404 is not tried again.
    """

    def __init__(
        self,
        target: RegistryRepository,
        sources: Sequence[RegistryRepository],
        failed: dict[str, OpmkitError],
    ) -> None:
        """Create a repository.

        Args:
            target: The repository to write to.
            sources: The repositories to read from: mirrors in order of precedence, then the repository itself.
            failed: The errors of failed mirrors, shared by all repositories of a client: by registry if it is
                unavailable, else by REGISTRY/REPOSITORY.
        """
        super().__init__(target._transport, target.location)
        self._sources = sources
        self._failed = failed
        self._last_used = sources[0]

    @property
    def locations(self) -> tuple[RepositoryLocation, ...]:
        """The locations that images are read from, in order of precedence."""
        return tuple(source.location for source in self._sources)

    def without_source(self) -> RegistryRepository:
        """Return the repository as its mirrors have it, for a source that cannot be read."""
        *mirrors, _ = self._sources
        return MirroredRepository(self, mirrors, self._failed)

    def resolve(self, identifier: str) -> Descriptor:
        """Resolve a tag or digest."""
        return self._read_first(identifier, lambda source: source.resolve(identifier))

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """Get a manifest or index, verified against its digest."""
        return self._read_first(identifier, lambda source: source.get_manifest(identifier))

    def fetch_manifest(self, identifier: str, accept: str) -> Response:
        """Get a manifest of any type, verified as by `get_manifest` but not parsed."""
        return self._read_first(identifier, lambda source: source.fetch_manifest(identifier, accept))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """Read a small blob into memory and verify it."""
        return self._read_first(descriptor.digest, lambda source: source.get_config(descriptor))

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """Open a blob; reading it to the end verifies it. If a mirror fails, another location continues."""
        stream = _FailoverStream(self._sources[-1], partial(self._open_at, descriptor), self._record_failure)
        return verify_stream(cast("BinaryIO", stream), descriptor, self.name)

    def describe_blob(self, digest: str) -> Descriptor:
        """Return the digest and size of a blob; raises NotFound."""
        return self._read_first(digest, lambda source: source.describe_blob(digest))

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the blob exists at one of the locations."""

        def check(source: RegistryRepository) -> bool:
            if not source.has_blob(descriptor):
                raise NotFound(f"{source.name}@{descriptor.digest}: not found")
            return True

        try:
            return self._read_first(descriptor.digest, check)
        except NotFound:
            return False

    def tags(self) -> Iterator[str]:
        """List the tags of the repository itself, since mirrors may lack some."""
        return self._sources[-1].tags()

    def referrers(self, digest: str, artifact_type: str = "") -> tuple[Descriptor, ...]:
        """List the artifacts with a subject, from the first location that has any."""

        def list_some(source: RegistryRepository) -> tuple[Descriptor, ...]:
            found = source.referrers(digest, artifact_type)
            if not found and source is not self._sources[-1]:
                raise NotFound(f"{source.name}@{digest}: no referrers")
            return found

        return self._read_first(digest, list_some)

    def has_referrers_api(self, digest: str) -> bool:
        """Return True, because one of the locations may have it."""
        return True

    def _open_at(self, descriptor: Descriptor, offset: int) -> tuple[RegistryRepository, BlobStream]:
        """Open a blob at ``offset``; return its source as well."""
        return self._read_first(
            descriptor.digest, lambda source: (source, source.open_unverified_blob(descriptor, offset))
        )

    def _read_first(self, identifier: str, read: Callable[[RegistryRepository], T]) -> T:
        """Return the result of ``read`` for the first source that succeeds; raise the errors of all if none does."""
        errors: dict[RegistryRepository, OpmkitError] = {}
        for source in sorted(self._sources, key=lambda source: source is not self._last_used):
            is_mirror = source is not self._sources[-1]
            earlier = self._failed.get(source.location.registry) or self._failed.get(source.name)
            if is_mirror and earlier:
                errors[source] = earlier
                continue
            try:
                result = read(source)
            except (ImageToolsError, LimitExceeded, DiskError) as error:
                errors[source] = error
                if is_mirror:
                    self._record_failure(source, error)
            else:
                self._last_used = source
                return result
        raise self._combined_error(identifier, [errors[source] for source in self._sources])

    def _record_failure(self, mirror: RegistryRepository, error: OpmkitError) -> None:
        if isinstance(error, NotFound):
            _log.debug("%s; trying the next location of %s", error.message, self.name)
            return
        _log.warning("%s; trying another location of %s", error.message, self.name)
        if not isinstance(error, DigestMismatch):
            self._failed[mirror.location.registry if isinstance(error, RegistryUnavailable) else mirror.name] = error

    def _combined_error(self, identifier: str, errors: list[OpmkitError]) -> OpmkitError:
        """Return one error of the type that the repository itself raised."""
        reasons = "; ".join(error.message for error in errors)
        hint = Hint.any_of(*(error.hint for error in reversed(errors)))
        message = f"{self._endpoint.reference(identifier)}: all locations configured for it failed: {reasons}"
        return type(errors[-1])(message, hint=hint)


class _FailoverStream(io.RawIOBase):
    """A blob that ``open_at`` opens at an offset, again from another source after a mirror failed."""

    def __init__(
        self,
        last: RegistryRepository,
        open_at: Callable[[int], tuple[RegistryRepository, BlobStream]],
        record_failure: Callable[[RegistryRepository, OpmkitError], None],
    ) -> None:
        self._last = last
        self._open_at = open_at
        self._record_failure = record_failure
        self._offset = 0
        self._source, self._stream = open_at(0)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self.readall()
        while True:
            try:
                data = self._stream.read(size)
            except RegistryUnavailable as error:
                if self._source is self._last:
                    raise
                self._record_failure(self._source, error)
                self._stream.close()
                self._source, self._stream = self._open_at(self._offset)
            else:
                self._offset += len(data)
                return data

    def close(self) -> None:
        self._stream.close()
        super().close()
