"""Catalog files: staged until all templates are rendered, and written only if they change."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.template_rendering.catalog_path import FileFormat

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import SourceLocation


class FileStatus(StrEnum):
    """The status of a file; the values are for reports."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class _Claim:
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
        self._staged: dict[Path, Path] = {}
        self._stack = ExitStack()
        self._scratch: Path | None = None
        self._created = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the staged files, and the directory if it was created for them alone."""
        self._stack.close()
        if self._created:
            with suppress(OSError):
                self._directory.rmdir()

    def claim(self, path: Path, template: Path, location: SourceLocation) -> None:
        """Reserve a file for a template.

        Raises:
            CatalogError: The file is outside of the directory, is the template itself, or belongs to another one.
        """
        with disk_errors(path):
            resolved = path.parent.resolve() / path.name
            if not resolved.is_relative_to(self._directory.resolve()) or path.is_dir():
                raise CatalogError(
                    f"{location}: refusing to write {path}, which is not a file below {self._directory}",
                    hint="Correct the name of the catalog, or remove the symbolic link.",
                )
        other = self._claims.setdefault(resolved, _Claim(template, location))
        if other.template != template or other.location != location:
            raise CatalogError(
                f"{location}: catalog {path} is also written by {other.template} ({other.location})",
                hint="Write each catalog from one template.",
            )

    def check_inputs(self, templates: list[tuple[Path, SourceLocation]]) -> None:
        """Raise CatalogError if a template is also a catalog that is written, which would depend on the order."""
        for template, location in templates:
            claim = self._claims.get(template.resolve())
            if claim is not None:
                raise CatalogError(
                    f"{location}: template {template} is also written, from {claim.template} ({claim.location})",
                    hint="Read templates from other files than those that are written.",
                )

    def stage(self, path: Path, content: bytes) -> FileStatus:
        """Compare a file with its new content, and stage the content if it differs.

        Raises:
            StoreError: A file can't be read or written.
        """
        with disk_errors(path):
            if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
                return FileStatus.UNCHANGED
            if self._check:
                return FileStatus.STALE
        with disk_errors(self._directory):
            staged = self._scratch_directory() / str(len(self._staged))
            staged.write_bytes(content)
            self._staged[path] = staged
        return FileStatus.WRITTEN

    def commit(self) -> None:
        """Move the staged files to their places, each atomically; the mode of existing files is retained.

        Raises:
            StoreError: A file can't be written.
        """
        for path, staged in self._staged.items():
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists():
                    shutil.copymode(path, staged)
                staged.replace(path)
        self._staged.clear()

    def _scratch_directory(self) -> Path:
        if self._scratch is None:
            self._created = not self._directory.exists()
            self._directory.mkdir(parents=True, exist_ok=True)
            self._scratch = Path(self._stack.enter_context(ScratchDirectory(".opm-", self._directory)))
        return self._scratch


def other_formats(path: Path) -> list[Path]:
    """Return the files of the other format next to a catalog, whose documents would be part of the catalog as well."""
    others = (path.with_suffix(f".{file_format}") for file_format in FileFormat)
    return [other for other in others if other != path and other.is_file()]
