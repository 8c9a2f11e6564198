"""What index images hold, taken out of them, and what is left as the base of a new one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.bundle.source import parse_place, path_or_image
from opmkit.imagetools.image import Image, select_platforms
from opmkit.imagetools.layer.paths import normal_path
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.imagetools.tools.registry import RegistryTool, TopLayers
from opmkit.index.errors import CatalogError, FileBasedCatalog
from opmkit.index.image.base import BASE_DIGEST, BASE_NAME, Base, made_from
from opmkit.index.image.content import CONTEXT_DATABASE, CatalogContent, Content, DatabaseContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools import ContainerTool, InspectedImage

CACHE_FLAG = "--cache-dir"
_DATABASE = "index.db"
_CATALOG = "catalog"
_Strip = Callable[[Image, Path], tuple[Image, TopLayers]]
"""Writes what an image holds to a directory; what is left is the image without the layers that hold nothing else."""


def extract_index(
    tool: RegistryTool, reference: ImageReference, directory: Path, platforms: Sequence[Platform] = ()
) -> tuple[Base, Content]:
    """Write what an index image holds to ``directory``, and give what lies under it, for these platforms or all.

    Layers are read from the top, and not below what hides all under it: the database, or a catalog written by opmkit.
    What lies under it is the image without the layers that hold nothing else, so that an index does not grow by a
    layer each time it is updated.

    Raises CatalogError where the image is no index, NotFound for platforms that it hasn't, and ImageToolsError for
    what goes wrong in reading it.
    """
    image = tool.load(reference)
    manifest = image.manifest if isinstance(image, Image) else image.index
    annotations = {key: manifest.annotations[key] for key in (BASE_NAME, BASE_DIGEST) if key in manifest.annotations}
    image = select_platforms(image, platforms, f"index image {reference}")
    first = image if isinstance(image, Image) else image.select()
    cache = _cache_place(first)
    is_database = INDEX_DATABASE in first.labels
    strip: _Strip = _WithoutDatabase(tool, reference) if is_database else _WithoutCatalog(tool, reference, cache)
    under, gone = _stripped(image, first, strip, directory)
    base = Base(under, annotations, manifest.digest, made_from(manifest))
    if is_database:
        return base, DatabaseContent(directory / _DATABASE)
    place = catalog_place(first, reference)
    return base, CatalogContent(directory / place, place, cache if cache not in gone.directories else "")


def _stripped(
    image: Image | ImageIndex, first: Image, strip: _Strip, directory: Path
) -> tuple[Image | ImageIndex, TopLayers]:
    """An image without what it holds, of which the directory has a copy; what went of its ``first`` platform."""
    bare, gone = strip(first, directory)
    if isinstance(image, Image):
        return bare, gone
    all_bare = {first.digest: bare}  # all platforms hold the same; the others are read only if their images differ
    for number, other in enumerate(image.images):
        if other.digest not in all_bare:
            all_bare[other.digest], _ = strip(other, directory / f".other-{number}")
    return image.with_images([all_bare[one.digest] for one in image.images]), gone


@dataclass(frozen=True, slots=True)
class _WithoutDatabase:
    """Copies the database out of one platform's image."""

    tool: RegistryTool
    reference: ImageReference

    def __call__(self, image: Image, directory: Path) -> tuple[Image, TopLayers]:
        directory.mkdir(exist_ok=True)
        path = database_place(image, self.reference)
        found = self.tool.find_file(image, path, directory / _DATABASE)
        if found is None:
            raise _no_database(self.reference, path)
        gone = TopLayers(frozenset({found.layer} if found.alone else ()), frozenset())
        return image.without_layers(gone.positions), gone


@dataclass(frozen=True, slots=True)
class _WithoutCatalog:
    """Copies the catalog out of one platform's image; layers that have the cache of its server beside it go, too."""

    tool: RegistryTool
    reference: ImageReference
    cache: str

    def __call__(self, image: Image, directory: Path) -> tuple[Image, TopLayers]:
        place = catalog_place(image, self.reference)
        beside = (self.cache,) if self.cache else ()
        gone = self.tool.extract_directory(image, place, directory, beside)
        _check_catalog(directory / place, self.reference)
        return image.without_layers(gone.positions), gone


def find_index(text: str) -> ImageReference | Path:
    """The index image of that name, or the path of a catalog's directory or a database; a path goes first.

    A directory with ``index.db`` or ``database/index.db`` in it is that database. Raises CatalogError for a path where
    nothing is, and ImageToolsError for what is no name.
    """
    path = Path(text)
    if path.exists():
        databases = (path / CONTEXT_DATABASE, path / _DATABASE)
        return next((each for each in databases if each.is_file()), path)
    place = parse_place(text)
    if isinstance(place, Path):
        raise CatalogError(f"{text}: no such file or directory", advice="Check the path.")
    return place


def new_content(start: Path | None, directory: Path, *, to_catalog: bool = False) -> Content:
    """A copy, in ``directory``, of what is on disk; nothing at all for None, as a catalog or as a database."""
    if start is None:
        catalog = directory / _CATALOG
        if not to_catalog:
            return DatabaseContent(directory / _DATABASE)
        catalog.mkdir()
        return CatalogContent(catalog)
    with disk_errors(start):
        if start.is_dir():
            return CatalogContent(shutil.copytree(start, directory / _CATALOG, symlinks=True))
        return DatabaseContent(Path(shutil.copyfile(start, directory / _DATABASE)))


def open_content(
    tool: ContainerTool, start: ImageReference | Path | None, directory: Path, *, to_catalog: bool = False
) -> tuple[InspectedImage | None, Content]:
    """What to start from, in ``directory``, with the image that it came from; see `new_content` and `read_index`."""
    if start is None or isinstance(start, Path):
        return None, new_content(start, directory, to_catalog=to_catalog)
    return read_index(tool, start, directory)


def read_database(tool: ContainerTool, reference: ImageReference, destination: Path) -> InspectedImage:
    """Copy the database of an index image to ``destination``, and tell of the image; any tool can.

    Raises CatalogError where the image is no sqlite index, and ImageToolsError for what goes wrong in reading it.
    """
    image = tool.inspect(reference)
    path = database_place(image, reference)
    if not tool.copy_file(reference, path, destination):
        raise _no_database(reference, path)
    return image


def read_index(tool: ContainerTool, reference: ImageReference, directory: Path) -> tuple[InspectedImage, Content]:
    """Write what an index image holds to ``directory``, and tell of the image; any tool can.

    Raises CatalogError where the image is no index, and ImageToolsError for what goes wrong in reading it.
    """
    image = tool.inspect(reference)
    if INDEX_DATABASE in image.labels:
        return read_database(tool, reference, directory / _DATABASE), DatabaseContent(directory / _DATABASE)
    return image, CatalogContent(read_catalog(tool, reference, directory), catalog_place(image, reference))


@contextmanager
def opened_content(tool: ContainerTool, index: str) -> Iterator[Content]:
    """What the index of that name holds, for reading: an image, a catalog's directory or a database file.

    Raises as `find_index` and `read_index` do.
    """
    place = find_index(index)
    if isinstance(place, Path):
        yield CatalogContent(place) if place.is_dir() else DatabaseContent(place)
        return
    with ScratchDirectory("opm-index-") as scratch:
        with path_or_image(index):
            content = read_index(tool, place, Path(scratch))[1]
        yield content


def read_catalog(tool: ContainerTool, reference: ImageReference, directory: Path) -> Path:
    """Write the catalog of an index image below ``directory``, and tell where; raises as `read_index` does."""
    place = catalog_place(tool.inspect(reference), reference)
    if isinstance(tool, RegistryTool):
        tool.extract_directory(reference, place, directory)
    else:
        tool.extract(reference, directory, (place,))
    return _check_catalog(directory / place, reference)


def database_place(image: InspectedImage, reference: ImageReference) -> str:
    """The path of the database in an index image; raises CatalogError where it names none."""
    path = image.labels.get(INDEX_DATABASE)
    if path:
        return path
    if INDEX_CONFIGS in image.labels:
        raise FileBasedCatalog(
            f"index image {reference} is a file-based catalog: it has no label {INDEX_DATABASE}",
            advice="name an index image that holds a sqlite database; 'opm serve' serves file-based catalogs",
        )
    raise _no_index(reference)


def catalog_place(image: InspectedImage, reference: ImageReference) -> str:
    """The path of the catalog in an index image, without the leading slash; raises CatalogError where it has none."""
    label = image.labels.get(INDEX_CONFIGS, "")
    if not label:
        raise _no_index(reference)
    place = normal_path(label)
    if not place:
        raise CatalogError(
            f"index image {reference}: its label {INDEX_CONFIGS} is {label!r}, which is no directory to have a catalog",
            advice=f"correct the label: opm puts catalogs into /{CatalogContent(Path()).place}",
        )
    return place


def _cache_place(image: Image) -> str:
    """Where the server of an image is told to look for the cache, without the leading slash; "" for nowhere."""
    words = [*image.config.entrypoint, *image.config.cmd, ""]
    for word, following in pairwise(words):
        flag, equals, value = word.partition("=")
        if flag == CACHE_FLAG:
            return normal_path(value if equals else following) or ""
    return ""


def _check_catalog(root: Path, reference: ImageReference) -> Path:
    if not root.is_dir():
        raise CatalogError(
            f"index image {reference}: no directory of the name that its label {INDEX_CONFIGS} gives",
            advice="The image is damaged or mislabelled: start from another tag of this index.",
        )
    return root


def _no_index(reference: ImageReference) -> CatalogError:
    return CatalogError(
        f"index image {reference} missing label {INDEX_DATABASE} or {INDEX_CONFIGS}",
        advice="--from-index takes an index image; a bundle image goes to --bundles",
    )


def _no_database(reference: ImageReference, path: str) -> CatalogError:
    return CatalogError(
        f"index image {reference}: no file {path}, which its label {INDEX_DATABASE} names",
        advice="the image is damaged or mislabelled: start from another tag of this index",
    )
