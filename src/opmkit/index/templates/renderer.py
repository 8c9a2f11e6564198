"""The interface through which templates get the bundles of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.render import RenderOptions, render_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob, SourceLocation
    from opmkit.index.image.source import GetRegistryTool


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


def bundle_renderer(
    tool: GetRegistryTool, options: RenderOptions, *, progress: Progress = NO_PROGRESS
) -> BundleRenderer:
    """Return a function that renders bundle images in parallel; the options must accept bundles only."""

    def render(images: Sequence[str], /) -> dict[str, BundleBlob]:
        rendered = render_each(tool, images, options, progress=progress)
        return {image: blobs.bundles[0] for image, blobs in zip(images, rendered, strict=True)}

    return render


def render_once(render: BundleRenderer, known: Mapping[str, BundleBlob] | None = None) -> BundleRenderer:
    """Return a renderer that renders each image once, and those in ``known`` never."""
    rendered = dict(known or {})

    def render_missing(images: Sequence[str], /) -> dict[str, BundleBlob]:
        if missing := [image for image in dict.fromkeys(images) if image not in rendered]:
            rendered.update(render(missing))
        return {image: rendered[image] for image in images}

    return render_missing
