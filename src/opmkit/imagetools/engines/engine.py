"""The interface of container engines: docker, podman and buildah."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

from opmkit.imagetools.spec import ImageConfig
from opmkit.imagetools.spec.fields import dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from opmkit.imagetools.auth import Credentials
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.layer import Layer


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image in the storage of an engine; ``digest`` is that of its configuration, the image ID of engines."""

    digest: str
    config: ImageConfig
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the configuration."""
        return self.config.labels

    @classmethod
    def from_inspect(cls, inspected: Mapping[str, object]) -> EngineImage:
        """Convert the image object of docker's and podman's API."""
        config: dict[str, object] = {
            "os": inspected.get("Os"),
            "architecture": inspected.get("Architecture"),
            "created": inspected.get("Created"),
            "config": inspected.get("Config"),
        }
        digest = f"sha256:{str(inspected['Id']).removeprefix('sha256:')}"
        annotations = inspected.get("Annotations")
        return cls(digest, ImageConfig.parse(dump_json(config)), annotations if isinstance(annotations, dict) else {})


ArchiveOpener = Callable[[str], BinaryIO | None]
"""Opens a tar archive of a path in a container, with entries named from the last component of the path.

It returns None if the path does not exist.
"""


class Engine(Protocol):
    """A container engine. Names are references with a tag or a digest.

    All methods are thread-safe and raise ImageToolsErrors.
    """

    name: str
    injected_paths: tuple[str, ...]
    """Files and directories that the engine adds to every container."""

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image for the platform of this host, even if the name exists in the engine's storage."""
        ...

    def find(self, name: str) -> EngineImage | None:
        """Return an image in the engine's storage, None if it does not exist."""
        ...

    def open_container(self, image: EngineImage) -> AbstractContextManager[ArchiveOpener]:
        """Create a container of an image to read files from; it is not started, and removed at the end."""
        ...

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image from a context archive, on a base in the engine's storage, and tag it with all names."""
        ...

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry, "" if the engine does not report it."""
        ...


def auth_config(credentials: Credentials | None) -> dict[str, str]:
    """Return credentials as the AuthConfig object of docker's and podman's API, empty for None."""
    if credentials is None:
        return {}
    if credentials.identity_token:
        return {"identitytoken": credentials.identity_token}
    return {"username": credentials.username, "password": credentials.password}
