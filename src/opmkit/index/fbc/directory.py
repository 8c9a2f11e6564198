"""File-based catalogs as directories, with a directory for each package, as the reference lays them out."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.write import sort_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.index.fbc.blobs import Blob, Blobs


def require_empty(directory: Path) -> None:
    """Raise CatalogError unless the directory is empty, or not there yet, and StoreError if it can't be read."""
    with disk_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise CatalogError(
                f"{directory} is there and not an empty directory",
                advice="Name another, or remove it: a catalog is not to be mixed with what was there before.",
            )


def write_catalog(blobs: Blobs, directory: Path, extension: str, write: Callable[[Iterable[Blob]], bytes]) -> None:
    """Write each package to ``PACKAGE/catalog.EXTENSION``, and what is of no package to ``catalog.EXTENSION``.

    ``write`` is `to_json` or `to_yaml`. The directory comes to be when all is written, or not at all.

    Raises:
        CatalogError: if the directory is there and not empty, or a package has a name that no directory can have.
        StoreError: if the disk says no.
    """
    require_empty(directory)
    directory = directory.absolute()
    with disk_errors(directory):
        near = next(path for path in (directory, *directory.parents) if path.exists())
        with _scratch_directory(near, directory) as scratch:
            for package, group in groupby(sort_blobs(blobs), key=lambda blob: blob.package):
                path = Path(scratch, package_directory_name(package), f"catalog.{extension}")
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as file:
                    file.writelines(write([blob]) for blob in group)
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path(scratch).iterdir()):
                path.replace(directory / path.name)


def _scratch_directory(near: Path, directory: Path) -> ScratchDirectory:
    """Create a temporary directory on the disk of ``directory``, which errors name."""
    try:
        return ScratchDirectory(".opm-catalog-", near)
    except OSError as error:
        error.filename = str(directory)
        raise


def package_directory_name(package: str) -> str:
    """The name of a package's directory, its own; raises CatalogError if no directory can have it."""
    if package in (".", "..") or "/" in package or "\0" in package:
        raise CatalogError(
            f"the package name {package!r} is no name of a directory", advice="Give the package another name."
        )
    return package
