"""The result of rendering templates."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.templates.repository.outputs import FileStatus

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.fbc.migrate import MigrationLevel


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


@dataclass(frozen=True, slots=True)
class MovedTag:
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
