"""Container engines as container tools: what docker, podman and buildah have in common."""

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
    """An image in an engine's storage; ``digest`` is that of its configuration, by which engines know images."""

    digest: str
    config: ImageConfig
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, str]:
        """The configuration's labels."""
        return self.config.labels

    @classmethod
    def from_inspect(cls, found: Mapping[str, object]) -> EngineImage:
        """Read what docker's API, and podman's as well, tells of an image."""
        config: dict[str, object] = {
            "os": found.get("Os"),
            "architecture": found.get("Architecture"),
            "created": found.get("Created"),
            "config": found.get("Config"),
        }
        digest = f"sha256:{str(found['Id']).removeprefix('sha256:')}"
        annotations = found.get("Annotations")
        return cls(digest, ImageConfig.parse(dump_json(config)), annotations if isinstance(annotations, dict) else {})


OpenArchive = Callable[[str], BinaryIO | None]
"""Opens a tar archive of what a container has at a path, its entries named from the path's last part.

It gives None where there is nothing at the path.
"""


class Engine(Protocol):
    """What one engine does in its own way. Names are references as all engines write them.

    Every method may be called from several threads and raises ImageToolsErrors.
    """

    name: str
    injected: tuple[str, ...]
    """Paths of files and directories that the engine puts into every container, whatever its image holds."""

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Get what the registry has under that name now, for this host's platform."""
        ...

    def find(self, name: str) -> EngineImage | None:
        """The image of that name in the engine's storage."""
        ...

    def opened(self, image: EngineImage) -> AbstractContextManager[OpenArchive]:
        """A container of the image, never started and gone at the end, to read files from."""
        ...

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build the context, an archive, on a base in the engine's storage, and give the image these names."""
        ...

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Send an image to the registry of its name; the digest that it has there, "" if the engine doesn't tell."""
        ...


def auth_config(credentials: Credentials | None) -> dict[str, str]:
    """Credentials as docker's API takes them, and podman's as well; empty for none."""
    if credentials is None:
        return {}
    if credentials.identity_token:
        return {"identitytoken": credentials.identity_token}
    return {"username": credentials.username, "password": credentials.password}
