"""Copying the rows of a package from one database to another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opmkit.index.errors import BundleExists
from opmkit.index.sqlite.packages import name_owners

if TYPE_CHECKING:
    from opmkit.index.sqlite.database import IndexDatabase

_KEY = "operatorbundle_name, operatorbundle_version, operatorbundle_path"
# The columns of the tables with rows of bundles, in an order in which foreign keys are met.
_BUNDLE_TABLES = {
    "api_provider": f"group_name, version, kind, {_KEY}",
    "api_requirer": f"group_name, version, kind, {_KEY}",
    "dependencies": f"type, value, {_KEY}",
    "properties": f"type, value, {_KEY}",
    "related_image": "operatorbundle_name, image",
    "deprecated": "operatorbundle_name",
}
_BUNDLES = "name, csv, bundle, bundlepath, skiprange, version, replaces, skips, substitutesfor"
_OF_BUNDLES = "operatorbundle_name IN (SELECT value FROM json_each(?))"
_APIS = """
SELECT group_name, version, kind, plural FROM api WHERE (group_name, version, kind) IN (
    SELECT group_name, version, kind FROM api_provider WHERE operatorbundle_name IN (SELECT value FROM json_each(?))
    UNION
    SELECT group_name, version, kind FROM api_requirer WHERE operatorbundle_name IN (SELECT value FROM json_each(?))
)"""


def copy_package(source: IndexDatabase, target: IndexDatabase, package: str) -> None:
    """Copy a package with its channels, and with the bundles that have an entry in it, to a database without it.

    APIs that the target has retain their plural names.

    Raises:
        BundleExists: Another package of the target has a bundle with the name of one of them.
    """
    names = [
        name
        for (name,) in source.connection.execute(
            "SELECT DISTINCT operatorbundle_name FROM channel_entry WHERE package_name = ? ORDER BY 1", (package,)
        )
    ]
    listed = json.dumps(names)
    _check_names(target, package, listed)
    _copy(source, target, "operatorbundle", _BUNDLES, "name IN (SELECT value FROM json_each(?))", listed)
    _copy(source, target, "channel", "name, package_name, head_operatorbundle_name", "package_name = ?", package)
    _copy(source, target, "package", "name, default_channel", "name = ?", package)
    _copy_entries(source, target, package)
    target.connection.executemany(
        "INSERT OR IGNORE INTO api (group_name, version, kind, plural) VALUES (?, ?, ?, ?)",
        source.connection.execute(_APIS, (listed, listed)),
    )
    for table, columns in _BUNDLE_TABLES.items():
        _copy(source, target, table, columns, _OF_BUNDLES, listed)


def _check_names(target: IndexDatabase, package: str, names: str) -> None:
    row = target.connection.execute(
        "SELECT name FROM operatorbundle WHERE name IN (SELECT value FROM json_each(?)) ORDER BY 1 LIMIT 1", (names,)
    ).fetchone()
    if row is not None:
        owners = [owner for _, owner in name_owners(target, row)]
        where = f"in package {', '.join(owners)}" if owners else "in no channel"
        raise BundleExists(
            f'bundle "{row[0]}" of package "{package}": already exists {where}',
            hint="remove that package or the stranded bundle from the target first",
        )


def _copy(source: IndexDatabase, target: IndexDatabase, table: str, columns: str, where: str, value: str) -> None:
    """Copy the rows of a table that meet a condition with one value."""
    marks = ", ".join("?" for _ in columns.split(","))
    rows = source.connection.execute(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {columns}", (value,))  # noqa: S608 - constant names
    target.connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608 - constant names


def _copy_entries(source: IndexDatabase, target: IndexDatabase, package: str) -> None:
    """Copy the channel entries with new numbers."""
    rows = source.connection.execute(
        "SELECT entry_id, channel_name, package_name, operatorbundle_name, replaces, depth FROM channel_entry "
        "WHERE package_name = ? ORDER BY entry_id",
        (package,),
    ).fetchall()
    first: int = target.connection.execute("SELECT coalesce(max(entry_id), 0) + 1 FROM channel_entry").fetchone()[0]
    numbers = {row[0]: first + position for position, row in enumerate(rows)}
    target.connection.executemany(
        "INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [
            (numbers[entry], channel, name, bundle, numbers.get(replaces), depth)
            for entry, channel, name, bundle, replaces, depth in rows
        ],
    )
