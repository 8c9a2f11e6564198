"""Compare two indexes of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.diff.model import diff_states, read_state
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource

if TYPE_CHECKING:
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.diff.model import IndexDiff, IndexState


def compare_indexes(tool: ContainerTool, before: str, after: str) -> IndexDiff:
    """Return the differences between two indexes: images, catalog directories or database files.

    They need not be valid. To compare a database with a file-based catalog, the database is converted.

    Raises:
        CatalogError: An index does not exist, or cannot be read.
        ImageToolsError: An image cannot be read.
    """
    old, new = (IndexSource.find(lambda: tool, name, build_context=True) for name in (before, after))
    for source in (old, new):
        source.require(INDEXES)
    if {old.kind, new.kind} <= DATABASES:
        return diff_states(_state(old), _state(new))
    from opmkit.index.diff.fbc import diff_blobs

    return diff_blobs(old.stream_blobs(), new.stream_blobs())


def _state(source: IndexSource) -> IndexState:
    from opmkit.index.sqlite import open_database

    with source.open() as content, open_database(content.path) as database:
        return read_state(database)
