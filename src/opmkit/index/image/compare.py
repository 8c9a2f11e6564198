"""Indexes compared, wherever and of whichever kind they are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.extract import opened_content
from opmkit.index.operations.diff import diff_states, read_state
from opmkit.index.sqlite import open_database

if TYPE_CHECKING:
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.operations.diff import IndexDiff, IndexState


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
        from opmkit.index.operations.diff_fbc import diff_blobs

        return diff_blobs(old.blobs(), new.blobs())


def _state(content: DatabaseContent) -> IndexState:
    with open_database(content.path) as database:
        return read_state(database)
