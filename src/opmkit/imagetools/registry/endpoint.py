"""URLs of a repository's API (OCI distribution-spec 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import oras.container

if TYPE_CHECKING:
    from opmkit.imagetools.registry_config import RepositoryLocation

_DOCKER_HUB, _DOCKER_HUB_HOST = "docker.io", "registry-1.docker.io"


def registry_host(registry: str) -> str:
    """Return the host that serves a registry, given its name in references."""
    return _DOCKER_HUB_HOST if registry == _DOCKER_HUB else registry


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The API of a repository under ``scheme`` (``http`` or ``https``)."""

    scheme: str
    location: RepositoryLocation

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return self.location.name

    def manifest(self, identifier: str) -> str:
        """Return the URL of a manifest or index by tag or digest."""
        return self._url(self._container().manifest_url(identifier))

    def blob(self, digest: str) -> str:
        """Return the URL of a blob."""
        return self._url(self._container().get_blob_url(digest))

    def uploads(self) -> str:
        """Return the URL that starts the upload of a blob."""
        return self._url(self._container().upload_blob_url())

    def referrers(self, digest: str) -> str:
        """Return the URL of the list of artifacts with the subject ``digest``."""
        return f"{self.manifest(digest).rpartition('/manifests/')[0]}/referrers/{digest}"

    def tags(self, page_size: int) -> str:
        """Return the URL of the list of tags."""
        return self._url(self._container().tags_url(N=page_size))

    def reference(self, identifier: str) -> str:
        """Return the full reference of a tag or digest, for messages."""
        return f"{self.name}@{identifier}" if ":" in identifier else f"{self.name}:{identifier}"

    def _container(self) -> oras.container.Container:
        # Parsing the name would read localhost as a namespace.
        namespace, _, last = self.location.repository.rpartition("/")
        container = oras.container.Container(last, registry=registry_host(self.location.registry))
        container.namespace = namespace
        return container

    def _url(self, path: str) -> str:
        return f"{self.scheme}://{path}"
