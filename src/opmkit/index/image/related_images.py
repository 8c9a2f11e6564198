"""The images that the bundles of an index need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files
from opmkit.bundle.source import BundleSource, default_image
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import INDEXES
from opmkit.index.operations.related_images import ImageKind, images_in_catalog, images_in_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.filter.package_filter import PackageFilter
    from opmkit.index.operations.related_images import ImageUse

MAX_WORKERS = 10
"""Images that are inspected concurrently."""


def index_images(source: IndexSource, filters: Sequence[PackageFilter] = ()) -> Iterator[ImageUse]:
    """Yield the bundle images and related images of an index of either kind, with the bundle that needs each.

    An image that several bundles need is yielded for each of them; `group_by_image` collects these. A file-based
    catalog is read file by file: without filters, images are yielded before the whole catalog is read.

    Args:
        source: the index, which need not be valid as long as its documents can be read; or a single bundle.
        filters: packages, channels and versions of the bundles; without filters, all bundles. Unlike those of
            `filter_blobs`, no bundles are added for a valid update graph.

    Raises:
        InvalidCatalog: documents cannot be read; raised after the last image.
        UnknownPackage, CatalogError: a package or channel does not exist, or the source is not an index.
        BundleError: the bundle is invalid.
        ImageToolsError: the image of the index cannot be read.
    """
    if source.kind not in INDEXES:
        image = default_image(source.location, source.text)
        yield from images_in_catalog(
            [_read_bundle(source.tool(), BundleSource(source.text, source.location, image))], filters
        )
        return
    from opmkit.index.fbc.load import stream_blobs

    with source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open() as database:
                yield from images_in_database(database, filters)
        else:
            yield from images_in_catalog(stream_blobs(content.path), filters)


def follow_bundles(
    tool: ContainerTool, uses: Iterable[ImageUse], *, progress: Progress = NO_PROGRESS
) -> Iterator[ImageUse]:
    """Yield the given images, and those that related images need which are bundles themselves, and so on.

    Args:
        tool: the tool that reads related images.
        uses: images of some bundles.
        progress: the progress.

    Raises:
        BundleError: a related bundle is invalid.
        ImageToolsError: a related image cannot be read, or its name is invalid.
    """
    seen: set[str] = set()
    pool = WorkerPool(MAX_WORKERS, "related")
    try:
        while current := list(uses):
            yield from current
            new = sorted({use.image for use in current if use.kind is ImageKind.RELATED} - seen)
            seen.update(new)
            uses = _images_of_bundles(tool, new, pool, progress)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _images_of_bundles(
    tool: ContainerTool, images: Sequence[str], pool: WorkerPool, progress: Progress
) -> list[ImageUse]:
    progress.begin("Reading related images", len(images), unit="images")
    try:
        found: list[ImageUse] = []
        for uses in pool.map(partial(_images_of_bundle, tool), images):
            found += uses
            progress.advance(1)
        return found
    finally:
        progress.end()


def _images_of_bundle(tool: ContainerTool, image: str) -> list[ImageUse]:
    """Return the images that an image needs, none unless it is a bundle."""
    if labels.MANIFESTS not in tool.inspect(parse_image_reference(image)).labels:
        return []
    return list(images_in_catalog([_read_bundle(tool, BundleSource.from_image(image))]))


def _read_bundle(tool: ContainerTool, source: BundleSource) -> BundleBlob:
    return bundle_to_blob(parse_bundle_files(source, fetch_bundle_files(tool, source), strict=False))
