"""The images that the bundles of an index need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.image.content import DatabaseContent
from opmkit.index.operations.related_images import images_in_catalog, images_in_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.filter.package_filter import PackageFilter
    from opmkit.index.operations.related_images import ImageUse


def index_images(source: IndexSource, filters: Sequence[PackageFilter] = ()) -> Iterator[ImageUse]:
    """Yield the bundle images and related images of an index of either kind, with the bundle that needs each.

    An image that several bundles need is yielded for each of them; `group_by_image` collects these. A file-based
    catalog is read file by file: without filters, images are yielded before the whole catalog is read.

    Args:
        source: the index, which need not be valid as long as its documents can be read.
        filters: packages, channels and versions of the bundles; without filters, all bundles. Unlike those of
            `filter_blobs`, no bundles are added for a valid update graph.

    Raises:
        InvalidCatalog: documents cannot be read; raised after the last image.
        UnknownPackage, CatalogError: a package or channel does not exist, or the source is not an index.
        ImageToolsError: the image of the index cannot be read.
    """
    from opmkit.index.fbc.load import iter_blobs

    with source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open() as database:
                yield from images_in_database(database, filters)
        else:
            yield from images_in_catalog(iter_blobs(content.path), filters)
