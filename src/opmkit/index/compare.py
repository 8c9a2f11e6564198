"""Indexes compared, wherever and of whichever kind they are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from opmkit.index.content import DatabaseContent
from opmkit.index.database import open_database
from opmkit.index.diff import diff_states, read_state
from opmkit.index.extract import opened_content

if TYPE_CHECKING:
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
        old, new = (stack.enter_context(opened_content(tool, each)) for each in (before, after))
        if isinstance(old, DatabaseContent) and isinstance(new, DatabaseContent):
            return diff_states(_state(old), _state(new))
        from opmkit.index.catalog.difference import diff_blobs

        return diff_blobs(old.blobs(), new.blobs())


def _state(content: DatabaseContent) -> IndexState:
    with open_database(content.path) as database:
        return read_state(database)
