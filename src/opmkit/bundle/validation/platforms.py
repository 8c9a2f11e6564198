"""Platforms of images, for the rules about multi-architecture operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.core.errors import DiskError, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool

_UNKNOWN = ("", "unknown")


class ImagePlatforms(Struct, frozen=True):
    """The platforms in an image index, or the one in the configuration of an image.

    Indexes contain attestations as manifests of the platform ``unknown/unknown``.
    """

    platforms: tuple[Platform, ...]
    is_index: bool

    @property
    def known(self) -> tuple[Platform, ...]:
        """The platforms except ``unknown``."""
        return tuple(
            platform
            for platform in self.platforms
            if platform.os not in _UNKNOWN and platform.architecture not in _UNKNOWN
        )


Inspect: TypeAlias = "Callable[[str], ImagePlatforms | None]"
"""Function that returns the platforms of an image by its reference, or None if they are unknown."""


def find_platforms(tool: RegistryTool, image: str) -> ImagePlatforms | None:
    """Return the platforms of an image in its registry, None if it cannot be loaded."""
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import parse_image_reference

    try:
        loaded = tool.load(parse_image_reference(image))
    except (ImageToolsError, LimitExceeded, DiskError):
        return None
    if isinstance(loaded, Image):
        return ImagePlatforms((loaded.config.platform,), is_index=False)
    return ImagePlatforms(tuple(part.config.platform for part in loaded.images), is_index=True)
