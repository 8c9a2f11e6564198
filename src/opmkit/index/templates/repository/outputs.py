"""Catalog files: staged until all templates are rendered, and the result of rendering."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import asdict

from opmkit.core.files import check_output, disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.index.errors import CatalogError
from opmkit.index.templates.repository.plan import FileFormat

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import SourceLocation
    from opmkit.index.fbc.csv_metadata import MigrationLevel


class FileStatus(StrEnum):
    """The status of a file; the values are for reports."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    STALE = "stale"


class _Claim(Struct, frozen=True):
    template: Path
    location: SourceLocation


class CatalogFiles:
    """The catalog files of one run, below one directory. A context manager; without `commit` nothing changes.

    Each path is claimed once, so that two templates cannot write the same catalog.
    """

    def __init__(self, directory: Path, *, check: bool = False) -> None:
        """Prepare to write files below a directory, or only to compare them."""
        self._directory = directory
        self._check = check
        self._claims: dict[Path, _Claim] = {}
        self._templates: set[Path] = set()
        self._staged: dict[str, Path] = {}
        self._stack = ExitStack()
        self._scratch: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the staged files."""
        self._stack.close()

    def protect(self, template: Path) -> None:
        """Reject catalogs that would overwrite a template; call it for all templates before `claim`."""
        with disk_errors(template):
            self._templates.add(template.resolve())

    def claim(self, path: Path, template: Path, location: SourceLocation) -> None:
        """Reserve a file for a template.

        Raises:
            CatalogError: The file is outside of the directory, is a template, or belongs to another template.
        """
        with disk_errors(path):
            resolved = _resolve(path)
            if not resolved.is_relative_to(self._directory.resolve()) or path.is_dir():
                raise CatalogError(
                    f"{location}: refusing to write {path}, which is not a file below {self._directory}",
                    hint="Correct the name of the catalog, or remove the symbolic link.",
                )
        if path.resolve() in self._templates:
            raise CatalogError(
                f"{location}: refusing to write {path}, which is also a template",
                hint="Read templates from other files than those that are written.",
            )
        other = self._claims.setdefault(resolved, _Claim(template, location))
        if other.template != template or other.location != location:
            raise CatalogError(
                f"{location}: catalog {path} is also written by {other.template} ({other.location})",
                hint="Write each catalog from one template.",
            )

    def stage(self, path: Path, content: bytes) -> FileStatus:
        """Compare a file with its new content, and stage the content if it differs.

        Raises:
            DiskError: A file can't be read or written.
        """
        with disk_errors(path):
            if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
                return FileStatus.UNCHANGED
            if self._check:
                return FileStatus.STALE
        scratch = self._scratch_directory()
        with disk_errors(scratch):
            staged = scratch / str(len(self._staged))
            staged.write_bytes(content)
        self._staged[_resolve(path).relative_to(self._directory.resolve()).as_posix()] = staged
        return FileStatus.WRITTEN

    def staged(self) -> dict[Path, dict[str, bytes | Path]]:
        """Return the staged files to write, see `write_trees`.

        Raises:
            DiskError: A link leads the directory out of the working directory.
        """
        if not self._staged:
            return {}
        with disk_errors(self._directory):
            check_output(self._directory)
        return {self._directory.resolve(): dict(self._staged)}

    def _scratch_directory(self) -> Path:
        """Return a directory that is not below the catalogs, because readers of catalogs would load its files."""
        if self._scratch is None:
            self._scratch = Path(self._stack.enter_context(ScratchDirectory("opm-catalogs-")))
        return self._scratch


def _resolve(path: Path) -> Path:
    """Return the path without links, except for that of the file itself."""
    return path.parent.resolve() / path.name


def other_formats(path: Path) -> list[Path]:
    """Return the files of the other format next to a catalog, whose documents would be part of the catalog as well."""
    others = (path.with_suffix(f".{file_format}") for file_format in FileFormat)
    return [other for other in others if other != path and other.is_file()]


@dataclass(frozen=True, slots=True)
class RenderedCatalog:
    """A catalog file that was rendered from a template.

    Attributes:
        path: The file.
        template: The template.
        status: ``written``, ``unchanged``, or ``stale`` if the file was only compared.
        migrate_level: The migration of its bundles.
        bundles: The number of its bundles.
    """

    path: Path
    template: Path
    status: FileStatus
    migrate_level: MigrationLevel
    bundles: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        return {
            "path": _text(self.path),
            "template": _text(self.template),
            "status": self.status.value,
            "migrateLevel": self.migrate_level.value,
            "bundles": self.bundles,
        }


class MovedTag(Struct, frozen=True):
    """A locked tag that names another manifest now."""

    image: str
    locked: str
    current: str


@dataclass(frozen=True, slots=True)
class RenderedTemplates:
    """The catalogs that were rendered from templates.

    Attributes:
        catalogs: The catalog files.
        lock_file: The lock file, None without one.
        lock: Its status, None without one.
        images: The number of bundle images.
        moved: Locked tags that name other manifests now.
        warnings: Warnings about templates and files.
    """

    catalogs: tuple[RenderedCatalog, ...]
    lock_file: Path | None
    lock: FileStatus | None
    images: int
    moved: tuple[MovedTag, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Return whether a file would have been written."""
        return FileStatus.STALE in (self.lock, *(catalog.status for catalog in self.catalogs))

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types, without warnings."""
        lock = None
        if self.lock_file and self.lock:
            moved = [asdict(tag) for tag in self.moved]
            lock = {"path": _text(self.lock_file), "status": self.lock.value, "moved": moved}
        return {"catalogs": [catalog.to_dict() for catalog in self.catalogs], "lock": lock, "images": self.images}


def _text(path: Path) -> str:
    """Return a path as Unicode text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode(errors="replace")
