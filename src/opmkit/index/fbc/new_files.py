"""The files that are new in a catalog directory: what they are called, and what is in them."""

from __future__ import annotations

import os
from collections import Counter
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.directory import package_directory_name
from opmkit.index.fbc.documents import is_json
from opmkit.index.fbc.walk import IGNORE_FILE, is_ignored
from opmkit.index.fbc.write import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blob

_BEGINNING = 512
"""Bytes of a file that tell whether it is JSON."""


def sibling_file(root: Path, beside: Blob, blob: Blob) -> str:
    """The name of a file for a blob alone where ``beside`` has one that is named after it; "" if it can't have one."""
    path = PurePosixPath(beside.location.file)
    if beside.schema != blob.schema or path.stem != beside.name or not blob.name or {"/", "\0"} & set(blob.name):
        return ""
    name = str(path.with_name(f"{blob.name}{path.suffix}"))
    return "" if os.path.lexists(root / name) or is_ignored(root, name) else name


def encode_like(path: Path, blob: Blob) -> bytes:
    """A blob in the format of another file; raises StoreError if that can't be read."""
    return (to_json if _begins_as_json(path) else to_yaml)([blob])


def new_package_files(
    root: Path, blobs: Sequence[Blob], files: Iterable[str], taken: Collection[str] = ()
) -> dict[str, bytes]:
    """The files for packages that the catalog does not have yet, in the format that most of its ``files`` have.

    None has a name that is ``taken``, or there.

    Raises:
        CatalogError: a package has a name that no directory can have, or its file would be ignored.
        StoreError: if a file can't be read.
    """
    if not blobs:
        return {}
    formats = Counter(_begins_as_json(root / name) for name in files)
    write, extension = (to_json, "json") if formats[True] >= formats[False] else (to_yaml, "yaml")
    written: dict[str, bytes] = {}
    for package in sorted({blob.package for blob in blobs}):
        names = _names(root, package, extension)
        name = next(name for name in names if not (name in (*taken, *written) or os.path.lexists(root / name)))
        if is_ignored(root, name):
            told = f"{name} can't hold the package {package}: an {IGNORE_FILE} file leaves it out of the catalog"
            raise CatalogError(told, advice=f"Change the {IGNORE_FILE} file, or put a first document of it elsewhere.")
        written[name] = write(blob for blob in blobs if blob.package == package)
    return written


def _begins_as_json(path: Path) -> bool:
    with disk_errors(path), path.open("rb") as file:
        return is_json(file.read(_BEGINNING))


def _names(root: Path, package: str, extension: str) -> Iterator[str]:
    """Names that the file of a package may have; it is put beside what has the name of its directory and is none."""
    stem = "catalog"
    if package:
        directory = root / package_directory_name(package)
        usable = not os.path.lexists(directory) or (directory.is_dir() and not directory.is_symlink())
        stem = f"{package}/catalog" if usable else f"{package}-catalog"
    yield f"{stem}.{extension}"
    yield from (f"{stem}-{number}.{extension}" for number in count(2))
