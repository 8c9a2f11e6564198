"""What templates are rendered with: the bundles of images, and their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob


class BundleRenderer(Protocol):
    """Gives the bundle of each image, whose names are all different.

    Raises CatalogError for an image that is no bundle, and ImageToolsError for one that can't be read.
    """

    def __call__(self, images: Sequence[str], /) -> Mapping[str, BundleBlob]:
        """The bundles by the names of the images."""
