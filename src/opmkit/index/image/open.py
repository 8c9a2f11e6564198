"""Indexes wherever they are: a database file, or an index image."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.source import path_or_image
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.image.extract import read_database
from opmkit.index.sqlite import open_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.sqlite import IndexDatabase


@contextmanager
def open_index(tool: Callable[[], ContainerTool], index: str) -> Iterator[IndexDatabase]:
    """Open the database file ``index``, or that of the index image of this name, for reading.

    ``tool`` is only asked for where an image is to be read. Raises CatalogError.
    """
    path = Path(index)
    if path.is_file():
        with open_database(path) as database:
            yield database
        return
    with ScratchDirectory("opm-index-") as scratch:
        extracted = Path(scratch) / "index.db"
        with path_or_image(index):
            read_database(tool(), parse_image_reference(index), extracted)
        with open_database(extracted) as database:
            yield database
