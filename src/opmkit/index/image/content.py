"""What an index image holds: a database, or a file-based catalog. Either is changed as a file or directory on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.fbc.walk import IGNORE_FILE
from opmkit.index.image.base import COMMAND, DATABASE_PATH, DEFAULT_BINARY_IMAGE, ENTRYPOINT, PORT, dockerfile
from opmkit.index.operations.change import change_catalog, change_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.operations.change import Change, ChangeResult

CONTEXT_DATABASE = "database/index.db"
CONTEXT_CATALOG = "catalog"
CONFIGS = "configs"
"""The directory of an image, without the leading slash, that has the catalog."""


class Content(Protocol):
    """An index on disk, which nobody else has in hand."""

    def change(self, change: Change) -> ChangeResult:
        """Make a change to it, all or nothing; raises CatalogError, and what the change raises."""
        ...

    def blobs(self) -> Blobs:
        """The index as a file-based catalog, valid or not; raises InvalidCatalog for what can't be read."""
        ...

    def build_spec(self, created: int) -> BuildSpec:
        """What an image with it has besides its base, whichever tool builds it.

        ``created`` is in seconds of Unix time.
        """
        ...

    def context(self, binary_image: str | None, name: str) -> Mapping[str, bytes | Path]:
        """The files of a build context with it and a Dockerfile of that name, by their paths."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseContent:
    """An index database, or none yet, at ``path``."""

    path: Path

    def change(self, change: Change) -> ChangeResult:
        """Make a change to it, all or nothing."""
        return change_database(self.path, change.of_database, durable=False)

    def blobs(self) -> Blobs:
        """What the database is converted to."""
        from opmkit.index.rendering.database_blobs import blobs_of_database
        from opmkit.index.sqlite import open_database

        with open_database(self.path) as database:
            return blobs_of_database(database)

    def build_spec(self, created: int) -> BuildSpec:
        """The database, and how it is served."""
        return BuildSpec(
            files=(LayerFile(DATABASE_PATH.lstrip("/"), self.path),),
            labels={INDEX_DATABASE: DATABASE_PATH},
            entrypoint=ENTRYPOINT,
            cmd=COMMAND,
            exposed_ports=(f"{PORT}/tcp",),
            created=created,
        )

    def context(self, binary_image: str | None, name: str) -> Mapping[str, bytes | Path]:
        """The database and a Dockerfile."""
        text = dockerfile(binary_image or DEFAULT_BINARY_IMAGE, CONTEXT_DATABASE)
        return {CONTEXT_DATABASE: self.path, name: text.encode()}

    def converted(self, root: Path, level: MigrationLevel | None = None) -> CatalogContent:
        """The same index as a file-based catalog in the new directory ``root``.

        Raises:
            InvalidCatalog: with all that is wrong with it by the rules of the newest release.
        """
        from opmkit.index.fbc.check.catalog import check_blobs
        from opmkit.index.fbc.directory import write_catalog
        from opmkit.index.fbc.findings import raise_findings
        from opmkit.index.fbc.migrate import MigrationLevel, migrate
        from opmkit.index.fbc.write import to_json

        blobs = migrate(self.blobs(), level or MigrationLevel.NONE)
        raise_findings(check_blobs(blobs))
        write_catalog(blobs, root, "json", to_json)
        return CatalogContent(root)


@dataclass(frozen=True, slots=True)
class CatalogContent:
    """A file-based catalog in the directory ``root``.

    ``place`` is where an image has it, without the leading slash, and ``cache`` where the image that it came from has
    the cache of its server, "" for nowhere. That is of the catalog as it was, and so is not in a new image.
    """

    root: Path
    place: str = CONFIGS
    cache: str = ""

    def change(self, change: Change) -> ChangeResult:
        """Make a change to it, all or nothing."""
        return change_catalog(self.root, change)

    def blobs(self) -> Blobs:
        """What the files have."""
        from opmkit.index.fbc.load import read_blobs

        return read_blobs(self.root)

    def build_spec(self, created: int) -> BuildSpec:
        """The catalog, and how it is served. An image hides the one that its base has, and so is read no further."""
        files = tuple(LayerFile(f"{self.place}/{name}", path) for name, path in self._files())
        return BuildSpec(
            files=files or (LayerFile(f"{self.place}/{IGNORE_FILE}", b""),),  # an empty catalog is a directory, too
            labels={INDEX_CONFIGS: f"/{self.place}"},
            removed_labels=frozenset({INDEX_DATABASE}),
            hidden=(self.place, self.cache) if self.cache else (self.place,),
            entrypoint=ENTRYPOINT,
            cmd=("serve", f"/{self.place}"),
            exposed_ports=(f"{PORT}/tcp",),
            created=created,
        )

    def context(self, binary_image: str | None, name: str) -> Mapping[str, bytes | Path]:
        """The catalog and a Dockerfile."""
        from opmkit.index.image.dockerfile import CatalogImage

        base = binary_image or DEFAULT_BINARY_IMAGE
        text = CatalogImage(CONTEXT_CATALOG, base=base, builder=base).dockerfile()
        files = {f"{CONTEXT_CATALOG}/{each}": path for each, path in self._files()}
        return {**files, name: text.encode()}

    def _files(self) -> Iterator[tuple[str, Path]]:
        """All files by their paths in the catalog, also those that are no part of it, but what marks it as empty."""
        with disk_errors(self.root):
            root = self.root.resolve(strict=True)
            for directory, _, names in os.walk(root):
                for path in (Path(directory, each) for each in names):
                    marks = path.name == IGNORE_FILE and path.parent == root and not path.stat().st_size
                    if path.is_file() and path.resolve().is_relative_to(root) and not marks:
                        yield path.relative_to(root).as_posix(), path
