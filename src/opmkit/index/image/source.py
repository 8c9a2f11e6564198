"""Open indexes: images in registries, engines, layouts and archives, catalog directories and database files.

Modules for images and databases are imported when they are needed, so that reading a directory starts quickly.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import labels
from opmkit.bundle.source import parse_location, path_or_image
from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.reference import Reference, archive_hint, named_path
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.content import (
    CatalogContent,
    DatabaseContent,
    catalog_path,
    check_extracted_catalog,
    copy_content,
    database_in,
    database_path,
    find_database,
    missing_database,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.imagetools.tools.tool import ContainerTool, InspectedImage
    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.fbc.load import LoadResult
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.image.content import IndexContent

    GetTool: TypeAlias = Callable[[], ContainerTool]
    """Returns the tool for images; it is called only if an image is read."""
    GetRegistryTool: TypeAlias = Callable[[], RegistryTool]


class SourceKind(StrEnum):
    """The kinds of indexes and bundles; the values are for messages."""

    CATALOG_DIRECTORY = "a catalog directory"
    CATALOG_IMAGE = "an index image with a file-based catalog"
    DATABASE_FILE = "an index database"
    DATABASE_IMAGE = "an index image with a database"
    BUNDLE_DIRECTORY = "a bundle directory"
    BUNDLE_IMAGE = "a bundle image"


DATABASES = frozenset({SourceKind.DATABASE_FILE, SourceKind.DATABASE_IMAGE})
CATALOGS = frozenset({SourceKind.CATALOG_DIRECTORY, SourceKind.CATALOG_IMAGE})
INDEXES = DATABASES | CATALOGS
_BUNDLES = frozenset({SourceKind.BUNDLE_DIRECTORY, SourceKind.BUNDLE_IMAGE})
_KIND_BY_LABEL = {
    labels.INDEX_DATABASE: SourceKind.DATABASE_IMAGE,
    labels.INDEX_CONFIGS: SourceKind.CATALOG_IMAGE,
    labels.PACKAGE: SourceKind.BUNDLE_IMAGE,
}
"""The label of each kind of image. If an image has several, the first in this order determines its kind."""


@dataclass(frozen=True)
class IndexSource:
    """An index, or a bundle, on disk or in an image.

    ``text`` is the name that the user gave, for messages; ``location`` is the path or the image.
    """

    text: str
    location: Path | ImageReference
    tool: GetTool

    @classmethod
    def find(cls, tool: GetTool, text: str, *, build_context: bool = False) -> IndexSource:
        """Return the file or directory with this name, or else the image, without accessing it.

        With ``build_context`` a directory that contains ``index.db`` or ``database/index.db`` is that database.

        Raises:
            CatalogError: A path that does not exist.
            InvalidReference: Neither a path nor a valid image reference.
        """
        if path := named_path(text):
            return cls(text, (find_database(path) if build_context else None) or path, tool)
        location = parse_location(text)
        if isinstance(location, Path):
            raise CatalogError(f"{text}: no such file or directory", hint="check the path")
        return cls(text, location, tool)

    @classmethod
    def resolve(cls, tool: GetRegistryTool, text: str, *, load: bool = True) -> IndexSource:
        """Find a source, and resolve the tag of an image in a registry, since it may be moved between two reads.

        With ``load`` the image is read by the same request, see `RegistryTool.load_digest`.

        Raises:
            CatalogError: A path that does not exist.
            ImageToolsError: The image does not exist, or its registry cannot be asked.
        """
        source = cls.find(tool, text)
        if not isinstance(source.location, Reference):
            return source
        with path_or_image(text):
            digest = tool().load_digest(source.location) if load else tool().digest(source.location)
        return replace(source, location=source.location.with_digest(digest))

    @property
    def path(self) -> Path | None:
        """The location if it is on disk."""
        return self.location if isinstance(self.location, Path) else None

    @property
    def image(self) -> ImageReference | None:
        """The location if it is an image."""
        return None if isinstance(self.location, Path) else self.location

    @cached_property
    def kind(self) -> SourceKind:
        """The kind: of an image by its labels, of a directory by its entries.

        Raises:
            CatalogError: An image without any of the labels.
            ImageToolsError: The image cannot be read.
        """
        if not isinstance(self.location, Path):
            return _kind_of_image(self._inspect(self.location).labels, self.text)
        if not self.location.is_dir():
            return SourceKind.DATABASE_FILE
        is_bundle = (self.location / "manifests").is_dir() and (self.location / "metadata").is_dir()
        return SourceKind.BUNDLE_DIRECTORY if is_bundle else SourceKind.CATALOG_DIRECTORY

    def require(self, kinds: Collection[SourceKind]) -> None:
        """Raise CatalogError unless the source is of one of these kinds, and what `kind` raises."""
        kind = self.kind
        if kind is SourceKind.DATABASE_FILE and kind not in kinds and (hint := archive_hint(Path(self.text))):
            raise CatalogError(f"{self.text}: a file, not an image", hint=hint)
        require_kind(kind, kinds, self.text)

    def check_readable(self) -> None:
        """Raise CatalogError, with the name that the user gave, if a path is neither a catalog nor a valid database."""
        with self.open() as content:
            if isinstance(content, DatabaseContent):
                with content.open():
                    pass

    @contextmanager
    def open(self) -> Iterator[IndexContent]:
        """Open an index for reading; that of an image is extracted to a temporary directory.

        Raises:
            CatalogError: Not an index.
            ImageToolsError: The image cannot be read.
        """
        self.require(INDEXES)
        if isinstance(self.location, Path):
            is_database = self.kind is SourceKind.DATABASE_FILE
            yield DatabaseContent(self.location) if is_database else CatalogContent(self.location)
            return
        with ScratchDirectory("opm-index-") as scratch:
            yield self.extract(Path(scratch))[0]

    def extract(self, directory: Path) -> tuple[IndexContent, InspectedImage | None]:
        """Copy an index to ``directory``, where it can be changed; return it and the image that contains it, if any.

        Raises:
            CatalogError: The image is not an index image.
            ImageToolsError: The image cannot be read.
        """
        if isinstance(self.location, Path):
            return copy_content(self.location, directory), None
        image = self._inspect(self.location)
        if labels.INDEX_DATABASE in image.labels:
            return self._extract_database(image, self.location, directory), image
        return self._extract_catalog(image, self.location, directory), image

    def load(self) -> LoadResult:
        """Read an index as a file-based catalog, with all findings about its documents; raises what `open` does."""
        with self.open() as content:
            return content.load()

    def blobs(self) -> Blobs:
        """Read an index as a file-based catalog, which need not be valid.

        Raises:
            InvalidCatalog: Documents cannot be read; the error lists each with its file and line.
            CatalogError: Not an index.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.index.fbc.findings import raise_findings

        loaded = self.load()
        with self._named_errors():
            raise_findings(loaded.errors)
        return loaded.blobs

    def stream_blobs(self) -> Iterator[Blob]:
        """Yield the blobs that `blobs` returns one at a time; raises what it does, perhaps after the last one."""
        with self._named_errors(), self.open() as content:
            yield from content.stream_blobs()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Add the name of the source to the errors about documents."""
        try:
            yield
        except InvalidCatalog as error:
            first, *others = error.lines
            raise InvalidCatalog(f"{self.text}: invalid catalog: {first}", details=others, hint=error.hint) from error

    def catalog(self, compat: CatalogCompat = CatalogCompat.NEWEST) -> Catalog:
        """Read an index that must be valid.

        A file-based catalog is checked by the rules of ``compat``, a database by those of the releases of
        operator-registry that write databases. Raises what `blobs` does.
        """
        self.require(INDEXES)
        if self.kind in CATALOGS:
            from opmkit.index.fbc.model import Catalog

            return Catalog.from_blobs(self.blobs(), compat)
        from opmkit.index.convert.database_blobs import load_catalog
        from opmkit.index.sqlite import open_database

        with self.open() as content, open_database(content.path) as database:
            return load_catalog(database)

    def _inspect(self, reference: ImageReference) -> InspectedImage:
        with path_or_image(self.text):
            return self.tool().inspect(reference)

    def _extract_database(self, image: InspectedImage, reference: ImageReference, directory: Path) -> DatabaseContent:
        content = database_in(directory)
        path = database_path(image, reference)
        if not self.tool().copy_file(reference, path, content.path):
            raise missing_database(reference, path)
        return content

    def _extract_catalog(self, image: InspectedImage, reference: ImageReference, directory: Path) -> CatalogContent:
        from opmkit.imagetools.tools.registry import RegistryTool

        tool, path = self.tool(), catalog_path(image, reference)
        if isinstance(tool, RegistryTool):
            tool.extract_directory(reference, path, directory)
        else:
            tool.extract(reference, directory, (path,))
        return CatalogContent(check_extracted_catalog(directory / path, reference), path)


def require_kind(kind: SourceKind, kinds: Collection[SourceKind], text: str) -> None:
    """Raise CatalogError for the source ``text`` unless its kind is one of ``kinds``."""
    if kind not in kinds:
        bundles = Hint("validate bundles with {}", IndexOperation.VALIDATE_BUNDLE) if kind in _BUNDLES else ""
        hint = Hint.any_of(f"pass {_one_of(kinds)}", bundles)
        raise CatalogError(f"{text}: unsupported: it is {kind}", hint=hint)


def _one_of(kinds: Collection[SourceKind]) -> str:
    *others, last = sorted(kinds)
    return f"{', '.join(others)} or {last}" if others else last


def _kind_of_image(image_labels: Mapping[str, str], text: str) -> SourceKind:
    kind = next((kind for label, kind in _KIND_BY_LABEL.items() if label in image_labels), None)
    if kind is not None:
        return kind
    reason = "it has only these labels:" if image_labels else "it has no labels"
    raise CatalogError(
        f"{text}: not an index image or a bundle image: {reason}",
        details=[f"  {label}={value}" for label, value in sorted(image_labels.items())],
        hint=f"pass an image with the label {labels.INDEX_CONFIGS}, {labels.INDEX_DATABASE} or {labels.PACKAGE}",
    )
