"""The platforms of images, by which rules learn what a bundle's images run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.spec import Platform

_UNKNOWN = ("", "unknown")


@dataclass(frozen=True, slots=True)
class ImagePlatforms:
    """What an image runs on: the platforms that its index lists, or the one that its configuration names.

    ``is_index`` tells which. An index may list platforms ``unknown/unknown``: those are of what is said about images,
    not of images.
    """

    platforms: tuple[Platform, ...]
    is_index: bool

    @property
    def known(self) -> tuple[Platform, ...]:
        """The platforms that are some."""
        return tuple(one for one in self.platforms if one.os not in _UNKNOWN and one.architecture not in _UNKNOWN)


Inspect: TypeAlias = "Callable[[str], ImagePlatforms | None]"
"""Asks for the platforms of an image by its reference; None if they can't be learnt. It keeps what it was told."""
