"""Rewriting a database so that its bytes depend only on its content, not on its history."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from opmkit.index.sqlite.connect import Budget, connect
from opmkit.index.sqlite.schema import create_schema

if TYPE_CHECKING:
    from pathlib import Path

_PAGE_SIZE = 4096

_BUNDLE = "operatorbundle_name, operatorbundle_version, operatorbundle_path"
# Columns that define a total order of rows. Bundles are read by the index on the name to avoid sorting large rows.
_ORDER = {
    "operatorbundle": "name",
    "channel": "package_name, name",
    "package": "name",
    "api": "group_name, version, kind",
    "api_provider": f"{_BUNDLE}, group_name, version, kind",
    "api_requirer": f"{_BUNDLE}, group_name, version, kind",
    "dependencies": f"{_BUNDLE}, type, value",
    "properties": f"{_BUNDLE}, type, value",
    "related_image": "operatorbundle_name, image",
    "deprecated": "operatorbundle_name",
}
# Entries retain their order within a channel and are renumbered across channels.
_COPY_ENTRIES = """
WITH numbered AS (
    SELECT entry_id AS before, row_number() OVER (ORDER BY package_name, channel_name, entry_id) AS after
    FROM source.channel_entry
)
INSERT INTO main.channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth)
SELECT own.after, entry.channel_name, entry.package_name, entry.operatorbundle_name, replaced.after, entry.depth
FROM source.channel_entry AS entry
JOIN numbered AS own ON own.before = entry.entry_id
LEFT JOIN numbered AS replaced ON replaced.before = entry.replaces
ORDER BY own.after"""


def write_compact(source: Path, target: Path, timestamp: str) -> None:
    """Write the content of the index database ``source`` to ``target``, which does not exist or is empty.

    Equal content gives equal bytes: rows are inserted in a fixed order into new pages of a fixed size. ``timestamp``
    is stored as the time of the schema migration.

    Raises:
        sqlite3.Error: The source is damaged or the disk is full.
    """
    with closing(connect(target.absolute().as_uri(), budget=Budget.for_file(source))) as connection:
        for setting in (f"page_size = {_PAGE_SIZE}", "journal_mode = OFF", "synchronous = OFF"):
            connection.execute(f"PRAGMA {setting}")
        create_schema(connection, timestamp)
        connection.execute("ATTACH ? AS source", (source.absolute().as_uri(),))
        connection.execute("BEGIN")
        for table, order in _ORDER.items():
            columns = ", ".join(name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})"))
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table} ORDER BY {order}"  # noqa: S608 - constant names
            )
        connection.execute(_COPY_ENTRIES)
        connection.execute("COMMIT")
