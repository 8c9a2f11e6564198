"""Descriptions of images: their labels, layers and commands."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool

_MAX_SEARCHED = 64 << 20
"""Decompressed bytes of an image's layers that are searched for its program."""
_log = logging.getLogger(__name__)


class ImageLayer(Struct, frozen=True):
    """A layer of an image: its digest and the bytes of its blob."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """The image of one platform.

    Attributes:
        platform: Its platform.
        digest: Its digest.
        created: Time of its creation.
        annotations: Annotations of its manifest.
        labels: Labels of its configuration.
        entrypoint: Program and arguments that it runs.
        cmd: Further arguments.
        has_program: Whether it contains the program that it runs, None if that is unknown.
        exposed_ports: Ports of its configuration.
        layers: Its layers, bottom first.
    """

    platform: Platform
    digest: str
    created: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    entrypoint: Sequence[str]
    cmd: Sequence[str]
    has_program: bool | None
    exposed_ports: Sequence[str]
    layers: tuple[ImageLayer, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return {
            "platform": str(self.platform),
            "digest": self.digest,
            "created": self.created,
            "annotations": dict(self.annotations),
            "labels": dict(self.labels),
            "entrypoint": self.entrypoint,
            "cmd": self.cmd,
            "hasProgram": self.has_program,
            "exposedPorts": self.exposed_ports,
            "layers": [asdict(layer) for layer in self.layers],
        }


@dataclass(frozen=True, slots=True)
class ImageDescription:
    """The content of an image.

    Attributes:
        name: Its name as given.
        digest: Its digest.
        media_type: Media type of its manifest or index.
        annotations: Annotations of its manifest or index.
        images: The image of each platform.
    """

    name: str
    digest: str
    media_type: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    images: tuple[PlatformImage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return {
            "name": self.name,
            "digest": self.digest,
            "type": self.media_type,
            "annotations": dict(self.annotations),
            "images": [image.to_dict() for image in self.images],
        }


def describe_image(name: str, loaded: Image | ImageIndex, tool: RegistryTool) -> ImageDescription:
    """Return the description of an image; the beginning of its layers is read, to look for the program."""
    head = loaded.manifest if isinstance(loaded, Image) else loaded.index
    images = [loaded] if isinstance(loaded, Image) else loaded.images
    described = tuple(_describe_platform(image, tool) for image in images)
    return ImageDescription(name, head.digest, head.media_type, dict(head.annotations), described)


def _describe_platform(image: Image, tool: RegistryTool) -> PlatformImage:
    config = image.config
    return PlatformImage(
        platform=config.platform,
        digest=image.digest,
        created=config.created,
        annotations=dict(image.manifest.annotations),
        labels=dict(config.labels),
        entrypoint=config.entrypoint,
        cmd=config.cmd,
        has_program=_has_program(image, tool),
        exposed_ports=config.exposed_ports,
        layers=tuple(ImageLayer(layer.digest, layer.size) for layer in image.manifest.layers),
    )


def _has_program(image: Image, tool: RegistryTool) -> bool | None:
    try:
        return tool.has_program(image, Limits(total_bytes=_MAX_SEARCHED))
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        _log.debug("%s: searching the program failed: %s", image.digest, error)
        return None
