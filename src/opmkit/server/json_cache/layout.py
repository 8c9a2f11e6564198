"""Names and modes of the files of the cache format ``json``."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

DIGEST, CONTENT = "digest", "cache"
PACKAGES, METAS = "packages.json", "metas"
DOCUMENTS = "documents"
"""The file with the documents for the web API, which the digest does not cover, and which only opmkit reads."""
DIRECTORY_MODE, FILE_MODE = 0o750, 0o640
SCHEMA_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
"""Schemas and packages that operator-registry lets clients ask for."""
POGREB = "pogreb.v1"
"""The directory of operator-registry's other format, a key-value database that opmkit cannot read."""


def bundle_file(package: str, channel: str, bundle: str) -> str:
    """Return the path of a bundle's file in the content directory; raises CatalogError for names that leave it."""
    path = posixpath.normpath(f"{package}_{channel}_{bundle}.json")
    if path.startswith(("/", "../")) or "\0" in path:
        raise CatalogError(
            f'package "{package}", channel "{channel}", bundle "{bundle}": invalid as a file name',
            hint="rename the channel or the bundle",
        )
    return path


def create_file(path: Path, data: bytes) -> None:
    """Write a new file; raises OSError, also if it already exists."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(data)
