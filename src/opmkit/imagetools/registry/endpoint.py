"""The URLs of a repository's API (OCI distribution-spec 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import oras.container

if TYPE_CHECKING:
    from opmkit.imagetools.registry_config import RepositoryLocation

_DOCKER_HUB, _DOCKER_HUB_HOST = "docker.io", "registry-1.docker.io"


def registry_host(registry: str) -> str:
    """The host that serves a registry, by its name in references."""
    return _DOCKER_HUB_HOST if registry == _DOCKER_HUB else registry


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The repository at ``place``, spoken to by ``scheme`` (``http`` or ``https``)."""

    scheme: str
    place: RepositoryLocation

    @property
    def name(self) -> str:
        """Registry and repository, as in references."""
        return self.place.name

    def manifest(self, identifier: str) -> str:
        """The URL of a manifest or index by tag or digest."""
        return self._url(self._container().manifest_url(identifier))

    def blob(self, digest: str) -> str:
        """The URL of a blob."""
        return self._url(self._container().get_blob_url(digest))

    def uploads(self) -> str:
        """The URL where the upload of a blob begins."""
        return self._url(self._container().upload_blob_url())

    def tags(self, page: int) -> str:
        """The URL of the list of tags, ``page`` at a time."""
        return self._url(self._container().tags_url(N=page))

    def subject(self, identifier: str) -> str:
        """The full reference, for messages."""
        return f"{self.name}@{identifier}" if ":" in identifier else f"{self.name}:{identifier}"

    def _container(self) -> oras.container.Container:
        """oras' view of the repository; set part by part, because it would take ``localhost`` for a namespace."""
        namespace, _, last = self.place.repository.rpartition("/")
        container = oras.container.Container(last, registry=registry_host(self.place.registry))
        container.namespace = namespace
        return container

    def _url(self, rest: str) -> str:
        return f"{self.scheme}://{rest}"
