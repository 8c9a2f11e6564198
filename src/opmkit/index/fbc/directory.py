"""File-based catalogs as directories with a subdirectory for each package, laid out as by Go opm."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.write import sort_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.index.fbc.blobs import Blob, Blobs


def require_empty(directory: Path) -> None:
    """Check that a directory is empty or does not exist.

    Raises:
        CatalogError: The directory is not empty, or the path is not a directory.
        DiskError: The directory can't be read.
    """
    with disk_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise CatalogError(
                f"{directory}: already exists and is not an empty directory",
                hint="Choose another directory, or remove this one.",
            )


def write_catalog(blobs: Blobs, directory: Path, extension: str, encode: Callable[[Iterable[Blob]], bytes]) -> None:
    """Write each package to ``PACKAGE/catalog.EXTENSION``, and blobs without a package to ``catalog.EXTENSION``.

    The directory is created only after everything is written to a temporary one.

    Args:
        blobs: The blobs of the catalog.
        directory: A directory that is empty or does not exist.
        extension: The extension of the files, without a dot.
        encode: `to_json` or `to_yaml`.

    Raises:
        CatalogError: The directory is not empty, or the name of a package is not a valid directory name.
        DiskError: A file can't be written.
    """
    require_empty(directory)
    directory = directory.absolute()
    with disk_errors(directory):
        nearest = next(path for path in (directory, *directory.parents) if path.exists())
        with _scratch_directory(nearest, directory) as scratch:
            for package, group in groupby(sort_blobs(blobs), key=lambda blob: blob.package):
                path = Path(scratch, package_directory_name(package), f"catalog.{extension}")
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as file:
                    file.writelines(encode([blob]) for blob in group)
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path(scratch).iterdir()):
                path.replace(directory / path.name)


def _scratch_directory(parent: Path, directory: Path) -> ScratchDirectory:
    """Create a temporary directory on the file system of ``directory``; errors name the latter."""
    try:
        return ScratchDirectory(".opm-catalog-", parent)
    except OSError as error:
        error.filename = str(directory)
        raise


def package_directory_name(package: str) -> str:
    """Return the name of a package's directory, which is the name of the package.

    Raises:
        CatalogError: It is not a valid directory name.
    """
    if package in (".", "..") or "/" in package or "\0" in package:
        raise CatalogError(f"package name {package!r}: not a valid directory name", hint="Rename the package.")
    return package
