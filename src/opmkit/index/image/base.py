"""Bases of new index images: a named image, or an index image without its content."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, structs
from msgspec.structs import replace

from opmkit.bundle.labels import INDEX_DATABASE
from opmkit.imagetools.image import Image, ImageIndex, select_platforms
from opmkit.imagetools.layer.reader import normalize_path
from opmkit.imagetools.reference import SCRATCH, parse_image_reference
from opmkit.imagetools.spec import IndexManifest
from opmkit.imagetools.tools.registry import RemovableLayers
from opmkit.index.image.content import (
    CatalogContent,
    catalog_path,
    check_extracted_catalog,
    database_in,
    database_path,
    missing_database,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Manifest, Platform
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.image.content import IndexContent


BASE_NAME = "org.opencontainers.image.base.name"
BASE_DIGEST = "org.opencontainers.image.base.digest"
MADE_FROM = "opmkit.index.made-from"
"""Annotation of an index image: the digest of the index image that it was made from, its parent."""

CACHE_FLAG = "--cache-dir"

_Strip = Callable[[Image, "Path"], tuple[Image, RemovableLayers]]
"""Extracts the content of an image to a directory; returns the image without the layers that contain nothing else."""


class Base(Struct, frozen=True):
    """The base of a new index image, with the annotations that the new image gets.

    ``parent`` is the digest of the index image that the new one is made from, and ``parent_of_previous`` the digest in
    the annotation of that image; both are "" if there is none.
    """

    image: Image | ImageIndex
    annotations: Mapping[str, str] = {}
    parent: str = ""
    parent_of_previous: str = ""

    @classmethod
    def scratch(cls, platforms: Sequence[Platform] = ()) -> Base:
        """Return the empty base for these platforms, by default linux/amd64."""
        images = [Image.scratch(platform) for platform in dict.fromkeys(platforms)] or [Image.scratch()]
        if len(images) == 1:
            return cls(images[0])
        descriptors = [replace(image.manifest.descriptor, platform=image.config.platform) for image in images]
        return cls(ImageIndex(IndexManifest.build(descriptors), tuple(images)))

    def with_lineage(self, other: Base) -> Base:
        """Return this base for an index image that is made from the same one as on ``other``."""
        return structs.replace(self, parent=other.parent, parent_of_previous=other.parent_of_previous)


def parent_digest(manifest: Manifest | IndexManifest) -> str:
    """Return the digest of the index image that an index image was made from, or "" if it is not annotated."""
    return manifest.annotations.get(MADE_FROM, "")


def load_base(tool: RegistryTool, name: str, platforms: Sequence[Platform] = ()) -> Base:
    """Load the base image ``name`` for these platforms, by default all it has; ``scratch`` is the empty image.

    Raises:
        NotFound: The image does not exist, or not for these platforms.
        ImageToolsError: The image cannot be read.
    """
    if name == SCRATCH:
        return Base.scratch(platforms)
    reference = parse_image_reference(name)
    image = tool.load(reference)
    annotations = {BASE_NAME: str(reference), BASE_DIGEST: image.digest}
    return Base(select_platforms(image, platforms, f"base image {reference}"), annotations)


def extract_with_base(
    tool: RegistryTool, reference: ImageReference, directory: Path, platforms: Sequence[Platform] = ()
) -> tuple[Base, IndexContent]:
    """Extract the content of an index image to ``directory``; return the image without it, and the content.

    The base is the image, for these platforms or all it has, without the layers that contain nothing but the index.
    Otherwise an index image would grow by a layer with each update. Layers are read from the top, and not below one
    that hides everything under it: that with the database, or with a catalog written by opmkit.

    Raises:
        CatalogError: The image is not an index image.
        NotFound: The image does not exist, or not for these platforms.
        ImageToolsError: The image cannot be read.
    """
    image = tool.load(reference)
    manifest = image.manifest if isinstance(image, Image) else image.index
    annotations = {key: manifest.annotations[key] for key in (BASE_NAME, BASE_DIGEST) if key in manifest.annotations}
    image = select_platforms(image, platforms, f"index image {reference}")
    first = image if isinstance(image, Image) else image.select()
    cache = _cache_path(first)
    is_database = INDEX_DATABASE in first.labels
    strip: _Strip = _DatabaseStripper(tool, reference) if is_database else _CatalogStripper(tool, reference, cache)
    stripped, removed = _strip_platforms(image, first, strip, directory)
    base = Base(stripped, annotations, manifest.digest, parent_digest(manifest))
    if is_database:
        return base, database_in(directory)
    path = catalog_path(first, reference)
    return base, CatalogContent(directory / path, path, cache if cache not in removed.directories else "")


def _strip_platforms(
    image: Image | ImageIndex, first: Image, strip: _Strip, directory: Path
) -> tuple[Image | ImageIndex, RemovableLayers]:
    """Strip all platforms of an image; return also the layers removed from ``first``, whose content is extracted."""
    stripped, removed = strip(first, directory)
    if isinstance(image, Image):
        return stripped, removed
    by_digest = {first.digest: stripped}
    for number, other in enumerate(image.images):
        if other.digest not in by_digest:
            by_digest[other.digest], _ = strip(other, directory / f".other-{number}")
    return image.with_images([by_digest[each.digest] for each in image.images]), removed


class _DatabaseStripper(Struct, frozen=True):
    """Extracts the database from the image of one platform."""

    tool: RegistryTool
    reference: ImageReference

    def __call__(self, image: Image, directory: Path) -> tuple[Image, RemovableLayers]:
        directory.mkdir(exist_ok=True)
        path = database_path(image, self.reference)
        found = self.tool.find_file(image, path, database_in(directory).path)
        if found is None:
            raise missing_database(self.reference, path)
        removed = RemovableLayers(frozenset({found.layer_index} if found.only_file else ()), frozenset())
        return image.without_layers(removed.positions), removed


class _CatalogStripper(Struct, frozen=True):
    """Extracts the catalog from the image of one platform; layers with the server's ``cache`` are removed as well."""

    tool: RegistryTool
    reference: ImageReference
    cache: str

    def __call__(self, image: Image, directory: Path) -> tuple[Image, RemovableLayers]:
        path = catalog_path(image, self.reference)
        removed = self.tool.extract_directory(image, path, directory, (self.cache,) if self.cache else ())
        check_extracted_catalog(directory / path, self.reference)
        return image.without_layers(removed.positions), removed


def _cache_path(image: Image) -> str:
    """Return the cache directory in the command of an image, without the leading slash, or "" if there is none."""
    words = [*image.config.entrypoint, *image.config.cmd, ""]
    for word, next_word in pairwise(words):
        flag, equals, value = word.partition("=")
        if flag == CACHE_FLAG:
            return normalize_path(value if equals else next_word) or ""
    return ""
