"""Repositories that are read from mirrors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from opmkit.imagetools.errors import ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.registry.repository import RegistryRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.imagetools.hosts import Place
    from opmkit.imagetools.spec import Descriptor, ImageIndex, Manifest

T = TypeVar("T")
_log = logging.getLogger(__name__)


class MirroredRepository(RegistryRepository):
    """A repository whose content is read from the first of several places that gives it.

    It bears the name of the one that references name, and what is sent to it goes there. A mirror that can't be reached
    isn't asked again by the same client.
    """

    def __init__(self, target: RegistryRepository, sources: Sequence[RegistryRepository], given_up: set[str]) -> None:
        """Read from ``sources``, in their order; ``given_up`` are registries that mirrors of this client failed at."""
        super().__init__(target._transport, target.place)
        self._sources = sources
        self._given_up = given_up

    @property
    def places(self) -> tuple[Place, ...]:
        """Where what is read may come from, best first."""
        return tuple(source.place for source in self._sources)

    def resolve(self, identifier: str) -> Descriptor:
        """The descriptor behind a tag or digest."""
        return self._first(identifier, lambda source: source.resolve(identifier))

    def get_manifest(self, identifier: str) -> Manifest | ImageIndex:
        """The manifest or index, verified."""
        return self._first(identifier, lambda source: source.get_manifest(identifier))

    def get_config(self, descriptor: Descriptor) -> bytes:
        """A small blob, verified."""
        return self._first(descriptor.digest, lambda source: source.get_config(descriptor))

    def open_blob(self, descriptor: Descriptor) -> BinaryIO:
        """A blob's content from the first place that begins to send it, verified while it is read."""
        return self._first(descriptor.digest, lambda source: source.open_blob(descriptor))

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether one of the places has the blob."""
        return any(source.has_blob(descriptor) for source in self._sources)

    def tags(self) -> Iterator[str]:
        """The tags, by what isn't a mirror: those may have a few of them only."""
        return self._sources[-1].tags()

    def _first(self, identifier: str, read: Callable[[RegistryRepository], T]) -> T:
        """What ``read`` gives for the first source where it succeeds; an error that tells of each, if none does."""
        failures: list[ImageToolsError] = []
        for source in self._sources:
            registry, is_mirror = source.place.registry, source is not self._sources[-1]
            if is_mirror and registry in self._given_up:
                failures.append(
                    RegistryUnavailable(f"{source.name}: {registry} failed before, and was not asked again")
                )
                continue
            try:
                return read(source)
            except ImageToolsError as error:
                failures.append(error)
                if is_mirror:
                    self._note(registry, error)
        raise self._failure(identifier, failures)

    def _note(self, registry: str, error: ImageToolsError) -> None:
        if isinstance(error, RegistryUnavailable):
            self._given_up.add(registry)
        level = logging.DEBUG if isinstance(error, NotFound) else logging.WARNING
        _log.log(level, "%s; the next place for %s is asked", error.message, self.name)

    def _failure(self, identifier: str, failures: list[ImageToolsError]) -> ImageToolsError:
        last, reasons = failures[-1], "; ".join(failure.message for failure in failures)
        advice = dict.fromkeys(failure.advice for failure in reversed(failures) if failure.advice)
        message = f"{self._endpoint.subject(identifier)}, by the settings for {self.place.registry}: {reasons}"
        return type(last)(message, advice="; or ".join(advice))
