"""Names and contents of new files in a catalog directory."""

from __future__ import annotations

import os
from collections import Counter
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.documents.document_stream import is_json
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.directory import package_directory_name
from opmkit.index.fbc.walk import IGNORE_FILE, is_ignored
from opmkit.index.fbc.write import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blob

_SNIFF_SIZE = 512
"""Bytes of a file that are read to detect JSON."""


def sibling_file(root: Path, sibling: Blob, blob: Blob) -> str:
    """Return the path of a new file for a blob if ``sibling`` has a file named after it, otherwise "".

    The path is relative to the root. It is "" as well if the file exists, would be ignored, or has an invalid name.
    """
    path = PurePosixPath(sibling.location.file)
    if sibling.schema != blob.schema or path.stem != sibling.name or not blob.name or {"/", "\0"} & set(blob.name):
        return ""
    name = str(path.with_name(f"{blob.name}{path.suffix}"))
    return "" if os.path.lexists(root / name) or is_ignored(root, name) else name


def encode_like(path: Path, blob: Blob) -> bytes:
    """Encode a blob in the format of another file.

    Raises:
        DiskError: The file can't be read.
    """
    return (to_json if _starts_as_json(path) else to_yaml)([blob])


def new_package_files(
    root: Path, blobs: Sequence[Blob], files: Iterable[str], reserved: Collection[str] = ()
) -> dict[str, bytes]:
    """Return files with the blobs of packages that are new in the catalog, by path relative to the root.

    Args:
        root: The root of the catalog.
        blobs: The blobs.
        files: The files of the catalog; the format is that of the majority.
        reserved: Paths that must not be used, in addition to existing files.

    Raises:
        CatalogError: The name of a package is not a valid directory name, or its file would be ignored.
        DiskError: A file can't be read.
    """
    if not blobs:
        return {}
    formats = Counter(_starts_as_json(root / name) for name in files)
    encode, extension = (to_json, "json") if formats[True] >= formats[False] else (to_yaml, "yaml")
    contents: dict[str, bytes] = {}
    for package in sorted({blob.package for blob in blobs}):
        names = _candidate_names(root, package, extension)
        name = next(name for name in names if not (name in (*reserved, *contents) or os.path.lexists(root / name)))
        if is_ignored(root, name):
            message = f"{name}: new file for package {package} would be excluded by an {IGNORE_FILE} file"
            raise CatalogError(
                message, hint=f"Change the {IGNORE_FILE} file, or create a file of the package yourself."
            )
        contents[name] = encode(blob for blob in blobs if blob.package == package)
    return contents


def _starts_as_json(path: Path) -> bool:
    with disk_errors(path), path.open("rb") as file:
        return is_json(file.read(_SNIFF_SIZE))


def _candidate_names(root: Path, package: str, extension: str) -> Iterator[str]:
    """Yield paths for the file of a package; it is not in a directory if something else has the directory's name."""
    stem = "catalog"
    if package:
        directory = root / package_directory_name(package)
        usable = not os.path.lexists(directory) or (directory.is_dir() and not directory.is_symlink())
        stem = f"{package}/catalog" if usable else f"{package}-catalog"
    yield f"{stem}.{extension}"
    yield from (f"{stem}-{number}.{extension}" for number in count(2))
