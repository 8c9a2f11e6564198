"""Repositories that are read from mirrors."""

from __future__ import annotations

import io
import logging
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from opmkit.imagetools.errors import DigestMismatch, ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.hints import Hint
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.repository import verify_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.imagetools.registry.blobs import BlobStream
    from opmkit.imagetools.registry_config import RepositoryLocation
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest

T = TypeVar("T")
_log = logging.getLogger(__name__)


class MirroredRepository(RegistryRepository):
    """A repository whose content is read from the first of several places that gives it.

    It bears the name of the one that references name, and what is sent to it goes there. The place that gave something
    is asked first from then on; a mirror that fails otherwise than by not having it is asked no more.
    """

    def __init__(
        self,
        target: RegistryRepository,
        sources: Sequence[RegistryRepository],
        failed: dict[str, ImageToolsError],
    ) -> None:
        """Read from ``sources``, in their order.

        ``failed`` is shared by the repositories of a client: the errors of mirrors that are asked no more, by registry
        where it can't be reached, else by name.
        """
        super().__init__(target._transport, target.place)
        self._sources = sources
        self._failed = failed
        self._best = sources[0]

    @property
    def places(self) -> tuple[RepositoryLocation, ...]:
        """Where what is read may come from, best first."""
        return tuple(source.place for source in self._sources)

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor behind a tag or digest."""
        return self._first(identifier, lambda source: source.resolve(identifier))

    def get_manifest(self, identifier: str) -> Manifest | IndexManifest:
        """The manifest or index, verified."""
        return self._first(identifier, lambda source: source.get_manifest(identifier))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified."""
        return self._first(descriptor.digest, lambda source: source.get_config(descriptor))

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content, verified while it is read; where a mirror breaks off, another place goes on."""
        stream = _BlobOfMany(self._sources[-1], partial(self._start, descriptor), self._note)
        return verify_stream(cast("BinaryIO", stream), descriptor, self.name)

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether one of the places has the blob."""

        def find(source: RegistryRepository) -> bool:
            if not source.has_blob(descriptor):
                raise NotFound(f"{source.name}@{descriptor.digest}: not found")
            return True

        try:
            return self._first(descriptor.digest, find)
        except NotFound:
            return False

    def tags(self) -> Iterator[str]:
        """The tags, by what isn't a mirror: those may have a few of them only."""
        return self._sources[-1].tags()

    def _start(self, descriptor: Descriptor, offset: int) -> tuple[RegistryRepository, BlobStream]:
        """A blob from ``offset`` on, and where it comes from."""
        return self._first(descriptor.digest, lambda source: (source, source.blob_from(descriptor, offset)))

    def _first(self, identifier: str, read: Callable[[RegistryRepository], T]) -> T:
        """What ``read`` gives for the first source where it succeeds; an error that tells of each, if none does."""
        failures: dict[RegistryRepository, ImageToolsError] = {}
        for source in sorted(self._sources, key=lambda source: source is not self._best):
            is_mirror = source is not self._sources[-1]
            before = self._failed.get(source.place.registry) or self._failed.get(source.name)
            if is_mirror and before:
                failures[source] = before
                continue
            try:
                found = read(source)
            except ImageToolsError as error:
                failures[source] = error
                if is_mirror:
                    self._note(source, error)
            else:
                self._best = source
                return found
        raise self._failure(identifier, [failures[source] for source in self._sources])

    def _note(self, mirror: RegistryRepository, error: ImageToolsError) -> None:
        if isinstance(error, NotFound):
            _log.debug("%s; the next place for %s is asked", error.message, self.name)
            return
        _log.warning("%s; another place for %s is asked", error.message, self.name)
        if not isinstance(error, DigestMismatch):
            self._failed[mirror.place.registry if isinstance(error, RegistryUnavailable) else mirror.name] = error

    def _failure(self, identifier: str, failures: list[ImageToolsError]) -> ImageToolsError:
        last, reasons = failures[-1], "; ".join(failure.message for failure in failures)
        hint = Hint.any_of(*(failure.hint for failure in reversed(failures)))
        message = f"{self._endpoint.subject(identifier)}, by the settings for {self.place.registry}: {reasons}"
        return type(last)(message, hint=hint)


class _BlobOfMany(io.RawIOBase):
    """The content that ``start`` gives from an offset on, started anew with ``note`` of a mirror that broke off."""

    def __init__(
        self,
        last: RegistryRepository,
        start: Callable[[int], tuple[RegistryRepository, BlobStream]],
        note: Callable[[RegistryRepository, ImageToolsError], None],
    ) -> None:
        self._last = last
        self._start = start
        self._note = note
        self._offset = 0
        self._source, self._stream = start(0)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self.readall()
        while True:
            try:
                piece = self._stream.read(size)
            except RegistryUnavailable as error:
                if self._source is self._last:
                    raise
                self._note(self._source, error)
                self._stream.close()
                self._source, self._stream = self._start(self._offset)
            else:
                self._offset += len(piece)
                return piece

    def close(self) -> None:
        self._stream.close()
        super().close()
