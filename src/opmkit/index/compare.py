"""Indexes compared, wherever and of whichever kind they are."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.index.content import CatalogContent, Content, DatabaseContent
from opmkit.index.database import open_database
from opmkit.index.diff import diff_states, read_state
from opmkit.index.extract import find_index, path_or_image, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.diff import IndexDiff, IndexState


def compare_indexes(tool: ContainerTool, before: str, after: str) -> IndexDiff:
    """What differs between two indexes: images, catalogs' directories or database files; they need not be valid.

    A database is compared to a catalog as the catalog that it converts to.

    Raises:
        CatalogError: for what is no index, or can't be read.
        ImageToolsError: for an image that can't be read.
    """
    with ExitStack() as stack:
        old, new = (stack.enter_context(_content(tool, each)) for each in (before, after))
        if isinstance(old, DatabaseContent) and isinstance(new, DatabaseContent):
            return diff_states(_state(old), _state(new))
        from opmkit.index.catalog.difference import diff_blobs

        return diff_blobs(old.blobs(), new.blobs())


@contextmanager
def _content(tool: ContainerTool, index: str) -> Iterator[Content]:
    place = find_index(index)
    if isinstance(place, Path):
        yield CatalogContent(place) if place.is_dir() else DatabaseContent(place)
        return
    with tempfile.TemporaryDirectory(prefix="opm-index-") as scratch:
        with path_or_image(index):
            content = read_index(tool, place, Path(scratch))[1]
        yield content


def _state(content: DatabaseContent) -> IndexState:
    with open_database(content.path) as database:
        return read_state(database)
