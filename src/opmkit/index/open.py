"""Indexes wherever they are: a database file, or an index image."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.catalog import load_catalog
from opmkit.index.database import open_database
from opmkit.index.image import extract_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.catalog import Catalog


def open_catalog(tool: Callable[[], ContainerTool], index: str) -> Catalog:
    """Read the catalog in the database file ``index``, or in the index image of that name.

    ``tool`` is only asked for where an image is to be read. Raises CatalogError and ImageToolsError.
    """
    path = Path(index)
    if path.is_file():
        with open_database(path) as database:
            return load_catalog(database)
    with tempfile.TemporaryDirectory(prefix="opm-index-") as scratch:
        path = Path(scratch) / "index.db"
        extract_database(tool(), parse_image_reference(index), path)
        with open_database(path) as database:
            return load_catalog(database)
