"""The interface through which templates get the bundles of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob, SourceLocation


class ListedImage(NamedTuple):
    """An image in a template, with its location."""

    image: str
    location: SourceLocation


class BundleRenderer(Protocol):
    """A function that renders bundle images.

    Raises:
        CatalogError: An image is not a bundle image.
        ImageToolsError: An image can't be read.
    """

    def __call__(self, images: Sequence[str], /) -> Mapping[str, BundleBlob]:
        """Return the bundle of each image, by image; the images are distinct."""
