"""The content of an index image: a database or a file-based catalog, as a file or directory on disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.core.files import copy_tree, disk_errors
from opmkit.core.hints import Hint
from opmkit.imagetools.layer.reader import normalize_path
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.image.dockerfile import CONFIGS, DATABASE_COMMAND, DATABASE_PATH, ENTRYPOINT, PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.tool import InspectedImage
    from opmkit.index.change import AppliedChange, Change
    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.fbc.csv_metadata import MigrationLevel
    from opmkit.index.fbc.load import LoadResult
    from opmkit.index.sqlite import IndexDatabase


CONTEXT_DATABASE = "database/index.db"
"""Path of the database in a build context."""
CONTEXT_CATALOG = "catalog"
"""Directory of the catalog in a build context."""

_DATABASE_FILE = "index.db"
_CATALOG_DIRECTORY = "catalog"


class IndexContent(Protocol):
    """An index on disk."""

    @property
    def path(self) -> Path:
        """The database file, or the directory of the catalog."""
        ...

    def change(self, change: Change) -> AppliedChange:
        """Apply a change completely or not at all.

        Raises:
            CatalogError: The index cannot be read, or the change is not possible.
        """
        ...

    def load(self) -> LoadResult:
        """Read the index as a file-based catalog, with all findings about its documents."""
        ...

    def blobs(self) -> Blobs:
        """Read the index as a file-based catalog, which need not be valid.

        Raises:
            InvalidCatalog: A document cannot be read.
        """
        ...

    def stream_blobs(self) -> Iterator[Blob]:
        """Yield the blobs one at a time; raises InvalidCatalog, after the last one if documents cannot be read."""
        ...

    def build_spec(self, created: int) -> BuildSpec:
        """Return the layer and the configuration of an image with this index.

        ``created`` is in seconds of Unix time.
        """
        ...

    def build_context(self, binary_image: str | None) -> tuple[Mapping[str, bytes | Path], bytes]:
        """Return the files of a build context, by path, and the Dockerfile for it."""
        ...


class DatabaseContent(Struct, frozen=True):
    """An index database at ``path``; a change creates it if it does not exist."""

    path: Path

    def open(self) -> AbstractContextManager[IndexDatabase]:
        """Open the database for reading."""
        from opmkit.index.sqlite import open_database

        return open_database(self.path)

    def change(self, change: Change) -> AppliedChange:
        """Apply a change completely or not at all."""
        from opmkit.index.change import change_database

        return change_database(self.path, change, durable=False)

    def load(self) -> LoadResult:
        """Convert the database to a file-based catalog."""
        from opmkit.index.fbc.load import LoadResult

        return LoadResult(self.blobs())

    def blobs(self) -> Blobs:
        """Convert the database to a file-based catalog."""
        from opmkit.index.convert.database_blobs import database_to_blobs

        with self.open() as database:
            return database_to_blobs(database)

    def stream_blobs(self) -> Iterator[Blob]:
        """Convert the database, one bundle at a time."""
        from opmkit.index.convert.database_blobs import stream_database_blobs

        with self.open() as database:
            yield from stream_database_blobs(database)

    def build_spec(self, created: int) -> BuildSpec:
        """Return the layer and the configuration of an image that serves the database."""
        from opmkit.imagetools.build_spec import BuildSpec
        from opmkit.imagetools.layer import LayerFile

        return BuildSpec(
            files=(LayerFile(DATABASE_PATH.lstrip("/"), self.path),),
            labels={INDEX_DATABASE: DATABASE_PATH},
            entrypoint=ENTRYPOINT,
            cmd=DATABASE_COMMAND,
            exposed_ports=(f"{PORT}/tcp",),
            created=created,
        )

    def build_context(self, binary_image: str | None) -> tuple[Mapping[str, bytes | Path], bytes]:
        """Return the database and a Dockerfile."""
        from opmkit.index.image.dockerfile import DEFAULT_BINARY_IMAGE, database_dockerfile

        text = database_dockerfile(binary_image or DEFAULT_BINARY_IMAGE, CONTEXT_DATABASE)
        return {CONTEXT_DATABASE: self.path}, text.encode()

    def to_catalog(self, directory: Path, level: MigrationLevel | None = None) -> CatalogContent:
        """Convert the database to a file-based catalog in the new directory ``directory``.

        Raises:
            InvalidCatalog: The catalog breaks a rule of the newest release of operator-registry.
        """
        from opmkit.index.fbc.check.catalog import check_blobs
        from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
        from opmkit.index.fbc.findings import raise_findings
        from opmkit.index.fbc.write import to_json, write_catalog

        blobs = migrate(self.blobs(), level or MigrationLevel.NONE)
        raise_findings(check_blobs(blobs))
        write_catalog(blobs, directory, "json", to_json)
        return CatalogContent(directory)


class CatalogContent(Struct, frozen=True):
    """A file-based catalog in the directory ``path``.

    ``image_path`` is its directory in the image, and ``cache_path`` that of the server's cache in the image that the
    catalog was extracted from, or "" if it has none; both are without the leading slash. A new image does not contain
    the cache, since it belongs to the old catalog.
    """

    path: Path
    image_path: str = CONFIGS
    cache_path: str = ""

    def change(self, change: Change) -> AppliedChange:
        """Apply a change completely or not at all."""
        from opmkit.index.change import change_catalog

        return change_catalog(self.path, change)

    def load(self) -> LoadResult:
        """Read the files, with all findings about their documents."""
        from opmkit.index.fbc.load import load_directory

        with disk_errors(self.path):
            return load_directory(self.path)

    def blobs(self) -> Blobs:
        """Read the files; raises InvalidCatalog."""
        from opmkit.index.fbc.load import read_blobs

        return read_blobs(self.path)

    def stream_blobs(self) -> Iterator[Blob]:
        """Read the files, one document at a time."""
        from opmkit.index.fbc.load import stream_blobs

        return stream_blobs(self.path)

    def build_spec(self, created: int) -> BuildSpec:
        """Return the layer and the configuration of an image that serves the catalog.

        The layer hides the catalog of the base, so that no layer below it needs to be read to extract this one.
        """
        from opmkit.imagetools.build_spec import BuildSpec
        from opmkit.imagetools.layer import LayerFile
        from opmkit.index.fbc.walk import IGNORE_FILE

        files = tuple(LayerFile(f"{self.image_path}/{name}", path) for name, path in self._files())
        return BuildSpec(
            # Without a file an empty catalog would have no directory.
            files=files or (LayerFile(f"{self.image_path}/{IGNORE_FILE}", b""),),
            labels={INDEX_CONFIGS: f"/{self.image_path}"},
            removed_labels=frozenset({INDEX_DATABASE}),
            opaque_directories=(self.image_path, self.cache_path) if self.cache_path else (self.image_path,),
            entrypoint=ENTRYPOINT,
            cmd=("serve", f"/{self.image_path}"),
            exposed_ports=(f"{PORT}/tcp",),
            created=created,
        )

    def build_context(self, binary_image: str | None) -> tuple[Mapping[str, bytes | Path], bytes]:
        """Return the files of the catalog and a Dockerfile."""
        from opmkit.index.image.dockerfile import DEFAULT_BINARY_IMAGE, CatalogDockerfile

        base = binary_image or DEFAULT_BINARY_IMAGE
        text = CatalogDockerfile(CONTEXT_CATALOG, base=base, builder=base).text()
        return {f"{CONTEXT_CATALOG}/{name}": path for name, path in self._files()}, text.encode()

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield all files inside the directory, except an empty ignore file, which only marks an empty catalog."""
        from opmkit.index.fbc.walk import IGNORE_FILE

        with disk_errors(self.path):
            root = self.path.resolve(strict=True)
            for directory, _, names in os.walk(root):
                for path in (Path(directory, name) for name in names):
                    is_marker = path.name == IGNORE_FILE and path.parent == root and not path.stat().st_size
                    if path.is_file() and path.resolve().is_relative_to(root) and not is_marker:
                        yield path.relative_to(root).as_posix(), path


def new_content(directory: Path, *, is_catalog: bool = False) -> IndexContent:
    """Return an empty index in ``directory``: a database, or a file-based catalog."""
    if not is_catalog:
        return database_in(directory)
    catalog = directory / _CATALOG_DIRECTORY
    catalog.mkdir()
    return CatalogContent(catalog)


def copy_content(path: Path, directory: Path) -> IndexContent:
    """Copy the catalog directory or database file at ``path`` to ``directory``; raises DiskError."""
    with disk_errors(path):
        if path.is_dir():
            return CatalogContent(copy_tree(path, directory / _CATALOG_DIRECTORY))
        return DatabaseContent(Path(shutil.copyfile(path, directory / _DATABASE_FILE)))


def database_in(directory: Path) -> DatabaseContent:
    """Return the database of an index that is created in, or extracted to, ``directory``."""
    return DatabaseContent(directory / _DATABASE_FILE)


def find_database(directory: Path) -> Path | None:
    """Return the database of a build context, or of the ``database`` directory in it, or None."""
    candidates = (directory / CONTEXT_DATABASE, directory / _DATABASE_FILE)
    return next((path for path in candidates if path.is_file()), None)


def database_path(image: InspectedImage, reference: ImageReference) -> str:
    """Return the path of the database in an index image; raises CatalogError if it has no label for it."""
    path = image.labels.get(INDEX_DATABASE)
    if not path:
        raise _missing_label(reference)
    return path


def catalog_path(image: InspectedImage, reference: ImageReference) -> str:
    """Return the path of the catalog in an index image, without the leading slash.

    Raises:
        CatalogError: The image has no label for it, or an invalid one.
    """
    label = image.labels.get(INDEX_CONFIGS, "")
    if not label:
        raise _missing_label(reference)
    path = normalize_path(label)
    if not path:
        raise CatalogError(
            f"index image {reference}: invalid label {INDEX_CONFIGS}: {label!r} is not the path of a directory",
            hint=f"correct the label: catalogs are in /{CONFIGS} by default",
        )
    return path


def check_extracted_catalog(directory: Path, reference: ImageReference) -> Path:
    """Return the directory that a catalog was extracted to; raises CatalogError if it does not exist."""
    if not directory.is_dir():
        raise CatalogError(
            f"index image {reference}: the directory in its label {INDEX_CONFIGS} does not exist",
            hint="the image is damaged or mislabelled: start from another tag of this index",
        )
    return directory


def missing_database(reference: ImageReference, path: str) -> CatalogError:
    """Return the error for an image without the database that its label names."""
    return CatalogError(
        f"index image {reference}: the file {path} in its label {INDEX_DATABASE} does not exist",
        hint="the image is damaged or mislabelled: start from another tag of this index",
    )


def _missing_label(reference: ImageReference) -> CatalogError:
    return CatalogError(
        f"index image {reference} missing label {INDEX_DATABASE} or {INDEX_CONFIGS}",
        hint=Hint.any_of("pass an index image", Hint("pass bundle images with {}", IndexSetting.BUNDLES)),
    )
