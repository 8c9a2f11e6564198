"""Catalogs of either kind, wherever they are, as blobs of a file-based one.

What reads images and databases is loaded where it is needed, so that a directory is read at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import labels
from opmkit.bundle.source import parse_place, path_or_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.load import LoadResult, load_directory
from opmkit.index.fbc.model import Catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import Blobs

    Tool: TypeAlias = Callable[[], RegistryTool]
    """Gives the tool for images; what is on disk needs none."""


class Kind(StrEnum):
    """What a catalog or bundle can be; the values are for messages."""

    CATALOG_DIRECTORY = "a catalog directory"
    CATALOG_IMAGE = "an index image with a file-based catalog"
    DATABASE_FILE = "an index database"
    DATABASE_IMAGE = "an index image with a database"
    BUNDLE_DIRECTORY = "a bundle directory"
    BUNDLE_IMAGE = "a bundle image"


_BUNDLES = frozenset({Kind.BUNDLE_DIRECTORY, Kind.BUNDLE_IMAGE})
DATABASES = frozenset({Kind.DATABASE_FILE, Kind.DATABASE_IMAGE})
CATALOGS = DATABASES | {Kind.CATALOG_DIRECTORY, Kind.CATALOG_IMAGE}
_LABELLED = {
    labels.INDEX_DATABASE: Kind.DATABASE_IMAGE,
    labels.INDEX_CONFIGS: Kind.CATALOG_IMAGE,
    labels.PACKAGE: Kind.BUNDLE_IMAGE,
}
"""The label that tells each kind of image; the first that an image has counts."""


def open_blobs(tool: Tool, reference: str) -> Blobs:
    """The blobs of a catalog: of a directory, a database file, or an index image with either.

    What is on disk under the name ``reference`` goes before an image of that name.

    Raises:
        InvalidCatalog: with all that is wrong in reading it, each with its file and line.
        CatalogError: where it is something else, such as a bundle, which the message names.
        ImageToolsError: if it can't be read.
    """
    return _sound(open_loaded(tool, reference), reference)


def open_catalog(tool: Tool, reference: str, compat: Compat = Compat.NEWEST) -> Catalog:
    """The catalog of that name, which must be valid: a database by the rules of the releases that write such.

    ``compat`` tells whose rules hold for others.

    Raises what `open_blobs` does; InvalidCatalog for a catalog that breaks a rule, too.
    """
    place = find_place(tool, reference)
    kind = kind_of(tool, place, reference)
    refuse_kind(kind, CATALOGS, reference)
    if kind not in (Kind.DATABASE_FILE, Kind.DATABASE_IMAGE):
        return Catalog.from_blobs(catalog_blobs(tool, place, kind, reference), compat)
    from opmkit.index.image.open import open_index
    from opmkit.index.rendering.from_database import load_catalog

    with open_index(tool, str(place)) as database:
        return load_catalog(database)


def open_loaded(tool: Tool, reference: str) -> LoadResult:
    """What can be read of a catalog, and what is wrong with its documents; raises all else that `open_blobs` does."""
    place = find_place(tool, reference)
    kind = kind_of(tool, place, reference)
    refuse_kind(kind, CATALOGS, reference)
    return _load(tool, place, kind, reference)


def find_place(tool: Tool, reference: str) -> Path | ImageReference:
    """The path of that name, or else the image, by its digest where it is in a registry.

    Raises:
        CatalogError: for a path where nothing is.
        ImageToolsError: if there is no such image.
    """
    path = Path(reference)
    if path.exists():
        return path
    place = parse_place(reference)
    if isinstance(place, Path):
        raise CatalogError(f"{reference}: no such file or directory", advice="Check the path.")
    if not isinstance(place, Reference):
        return place
    with path_or_image(reference):
        return place.with_digest(tool().digest(place))  # the tag may be moved in the meantime


def kind_of(tool: Tool, place: Path | ImageReference, reference: str) -> Kind:
    """What there is at a place: an image tells by its labels, a directory by what is in it.

    Raises:
        CatalogError: for an image without any of the labels.
        ImageToolsError: if the image can't be read.
    """
    if not isinstance(place, Path):
        return _kind_of_image(tool().inspect(place).labels, reference)
    if not place.is_dir():
        return Kind.DATABASE_FILE
    is_bundle = (place / "manifests").is_dir() and (place / "metadata").is_dir()
    return Kind.BUNDLE_DIRECTORY if is_bundle else Kind.CATALOG_DIRECTORY


def refuse_kind(kind: Kind, wanted: frozenset[Kind], reference: str) -> None:
    """Raise CatalogError unless it is of a wanted kind."""
    if kind not in wanted:
        bundles = "; 'opm bundle validate' validates bundles" if kind in _BUNDLES else ""
        raise CatalogError(f"{reference}: unsupported: it is {kind}", advice=f"Give {_one_of(wanted)}{bundles}.")


def _one_of(kinds: frozenset[Kind]) -> str:
    *others, last = sorted(kinds)
    return f"{', '.join(others)} or {last}" if others else last


def catalog_blobs(tool: Tool, place: Path | ImageReference, kind: Kind, reference: str) -> Blobs:
    """The blobs of the catalog of that kind at a place; raises what `open_blobs` does."""
    return _sound(_load(tool, place, kind, reference), reference)


def _sound(loaded: LoadResult, reference: str) -> Blobs:
    try:
        raise_findings(loaded.faults)
    except InvalidCatalog as error:
        first, *others = error.lines
        raise InvalidCatalog(f"{reference}: invalid catalog: {first}", details=others, advice=error.advice) from error
    return loaded.blobs


def _load(tool: Tool, place: Path | ImageReference, kind: Kind, reference: str) -> LoadResult:
    if isinstance(place, Path):
        return _of_database(place) if kind is Kind.DATABASE_FILE else _of_directory(place)
    with ScratchDirectory("opm-index-") as scratch:
        root = Path(scratch)
        if kind is Kind.DATABASE_IMAGE:
            from opmkit.index.image.extract import read_database

            read_database(tool(), place, root / "index.db")
            return _of_database(root / "index.db")
        return _of_directory(_unpack(tool(), place, root))


@contextmanager
def unpacked_catalog(tool: Tool, reference: str) -> Iterator[Path]:
    """The directory with the file-based catalog of an index image, for as long as it is needed.

    Raises:
        CatalogError: where it is something else, which the message names.
        ImageToolsError: if it can't be read.
    """
    place = find_place(tool, reference)
    refuse_kind(kind_of(tool, place, reference), frozenset({Kind.CATALOG_DIRECTORY, Kind.CATALOG_IMAGE}), reference)
    if isinstance(place, Path):
        yield place
        return
    with ScratchDirectory("opm-index-") as scratch:
        yield _unpack(tool(), place, Path(scratch))


def _unpack(tool: RegistryTool, place: ImageReference, root: Path) -> Path:
    from opmkit.index.image.extract import read_catalog

    return read_catalog(tool, place, root)


def _of_database(path: Path) -> LoadResult:
    from opmkit.index.rendering.database_blobs import blobs_of_database
    from opmkit.index.sqlite import open_database

    with open_database(path) as database:
        return LoadResult(blobs_of_database(database))


def _of_directory(path: Path) -> LoadResult:
    with disk_errors(path):
        return load_directory(path)


def _kind_of_image(found: Mapping[str, str], reference: str) -> Kind:
    kind = next((kind for label, kind in _LABELLED.items() if label in found), None)
    if kind is not None:
        return kind
    raise CatalogError(
        f"{reference} has no label of an index image or a bundle image; it has{'' if found else ' none'}",
        details=[f"  {label}={value}" for label, value in sorted(found.items())],
        advice=f"An index image has the label {labels.INDEX_CONFIGS} or {labels.INDEX_DATABASE}, a bundle image "
        f"{labels.PACKAGE}.",
    )
