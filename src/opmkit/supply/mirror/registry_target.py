"""A registry as the target of a mirror."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opmkit.imagetools.reference import Reference
from opmkit.supply.mirror.names import repository_below

if TYPE_CHECKING:
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import Repository
    from opmkit.supply.mirror.target import RegistryLocation


class RegistryTarget:
    """A registry, whose repositories have the paths of the sources, without their registries, below a prefix.

    ``quay.io/org/name`` becomes ``REGISTRY/PREFIX/org/name``.
    """

    shares_blobs = False

    def __init__(
        self, client: RegistryClient, location: RegistryLocation, *, max_components: int | None = None
    ) -> None:
        """Create a target; for ``max_components`` see `repository_below`."""
        self._client = client
        self._location = location
        self._max_components = max_components
        self._repositories: dict[str, Repository] = {}
        self._lock = threading.Lock()

    def name(self, source: Reference) -> str:
        """Return REGISTRY/PREFIX/PATH; raise InvalidReference if it is too long."""
        return self._reference(source).name

    def repository(self, source: Reference) -> Repository:
        """Return the repository of the registry."""
        reference = self._reference(source)
        with self._lock:
            if reference.name not in self._repositories:
                self._repositories[reference.name] = self._client.target(reference)
            return self._repositories[reference.name]

    def finish(self) -> None:
        """Do nothing: images are complete once they have been put."""

    def _reference(self, source: Reference) -> Reference:
        return Reference(self._location.registry, repository_below(self._location.prefix, source, self._max_components))
