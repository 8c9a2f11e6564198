"""Packages, channels and update graphs in the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.jsonvalue import encode
from opmkit.index.database.bundles import insert_properties
from opmkit.index.graph import Member, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.database.files import IndexDatabase
    from opmkit.index.graph import ChannelGraph, PackageGraph

# The bundles named, and all that can be reached from them by replaces.
_NODES = """
WITH RECURSIVE reached (name) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT bundle.replaces FROM operatorbundle AS bundle JOIN reached USING (name)
)
SELECT name, version, replaces, skips FROM reached JOIN operatorbundle USING (name)"""


@dataclass(frozen=True, slots=True)
class IndexedPackage:
    """What an index has of a package: the images and names of the bundles in its channels.

    A bundle that did not come from an image has the image ``""``.
    """

    images: frozenset[str]
    names: frozenset[str]


def indexed_package(database: IndexDatabase, package: str) -> IndexedPackage:
    """The bundles of a package that are in the index; none where the package is unknown."""
    rows = database.connection.execute(
        "SELECT DISTINCT name, bundlepath FROM operatorbundle JOIN channel_entry ON name = operatorbundle_name "
        "WHERE package_name = ?",
        (package,),
    ).fetchall()
    return IndexedPackage(frozenset(path for _, path in rows if path is not None), frozenset(name for name, _ in rows))


def package_members(database: IndexDatabase, package: str) -> list[Member]:
    """The bundles of a package with every channel that has an entry of theirs, and the package's default channel."""
    row = database.connection.execute("SELECT default_channel FROM package WHERE name = ?", (package,)).fetchone()
    default_channel = (row and row[0]) or ""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), json_group_array(DISTINCT channel_name) FROM operatorbundle "
        "JOIN channel_entry ON name = operatorbundle_name WHERE package_name = ? GROUP BY name ORDER BY name",
        (package,),
    )
    return [Member(name, version, tuple(json.loads(channels)), default_channel) for name, version, channels in rows]


def nodes(database: IndexDatabase, names: Iterable[str]) -> dict[str, Node]:
    """The bundles of the index that have these names, and those that they replace, and so on, by name."""
    rows = database.connection.execute(_NODES, (json.dumps(list(names)),))
    return {
        name: Node(name, version or "", replaces or "", tuple(skips.split(",")) if skips else ())
        for name, version, replaces, skips in rows
    }


def deprecated_bundles(database: IndexDatabase) -> frozenset[str]:
    """The names of the bundles that updates are truncated at."""
    return frozenset(name for (name,) in database.connection.execute("SELECT operatorbundle_name FROM deprecated"))


def owners(database: IndexDatabase, names: Iterable[str]) -> list[tuple[str, str]]:
    """The (name, package) pairs of these names in the channels of the index, in order."""
    return database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, package_name FROM channel_entry "
        "WHERE operatorbundle_name IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
        (json.dumps(list(names)),),
    ).fetchall()


def replace_package(database: IndexDatabase, graph: PackageGraph) -> None:
    """Give a package the channels of ``graph`` instead of those it has.

    Every bundle on the chain of a channel gets another property that names the package and its version, each time
    (index semantics, section 3.6).
    """
    connection = database.connection
    for table, column in (("package", "name"), ("channel", "package_name"), ("channel_entry", "package_name")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (graph.name,))  # noqa: S608
    connection.executemany(
        "INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES (?, ?, ?)",
        [(channel.name, graph.name, channel.head) for channel in graph.channels],
    )
    connection.execute("INSERT INTO package VALUES (?, ?)", (graph.name, graph.default_channel))
    for channel in graph.channels:
        _insert_entries(database, graph.name, channel)
        for node in channel.chain:
            value = encode({"packageName": graph.name, "version": node.version})
            insert_properties(database, node.name, [("olm.package", value.decode())])


def _insert_entries(database: IndexDatabase, package: str, channel: ChannelGraph) -> None:
    connection = database.connection
    first: int = connection.execute("SELECT coalesce(max(entry_id), 0) + 1 FROM channel_entry").fetchone()[0]
    connection.executemany(
        "INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [
            (first + position, channel.name, package, entry.name, _at(first, entry.replaces), entry.depth)
            for position, entry in enumerate(channel.entries)
        ],
    )


def _at(first: int, position: int | None) -> int | None:
    return None if position is None else first + position
