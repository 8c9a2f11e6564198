"""Reading and writing packages, channels and update graphs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from opmkit.documents.json_value import encode
from opmkit.index.errors import BundleExists
from opmkit.index.graph import ChannelNode, Member, Node
from opmkit.index.sqlite.bundles import insert_properties

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.graph import ChannelGraph, PackageGraph
    from opmkit.index.sqlite.database import IndexDatabase


# Bundles by name, and transitively the bundles that they replace.
_NODES = """
WITH RECURSIVE reached (name) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT bundle.replaces FROM operatorbundle AS bundle JOIN reached USING (name)
)
SELECT name, version, replaces, skips, substitutesfor FROM reached JOIN operatorbundle USING (name)"""
# The entries of a package whose bundles exist, with the bundle that each replaces or skips. BETWEEN: see bundles.py.
_CHANNEL_NODES = """
SELECT entry.channel_name, bundle.name, coalesce(bundle.version, ''), target.operatorbundle_name
FROM channel_entry AS entry
JOIN operatorbundle AS bundle ON bundle.name BETWEEN entry.operatorbundle_name AND entry.operatorbundle_name
LEFT JOIN channel_entry AS target ON target.entry_id = entry.replaces
WHERE entry.package_name = ? ORDER BY entry.entry_id"""
# The existing bundles that replace or skip a bundle.
_REPLACING = """
SELECT DISTINCT entry.channel_name, bundle.name
FROM channel_entry AS entry
JOIN channel_entry AS above ON above.replaces = entry.entry_id
JOIN operatorbundle AS bundle ON bundle.name = above.operatorbundle_name
WHERE entry.package_name = ? AND entry.operatorbundle_name = ? ORDER BY 1, 2"""
# The channels that remain without a head: the default one, and those where the head replaces an existing bundle.
_CLEAR_HEAD = """
UPDATE channel SET head_operatorbundle_name = NULL WHERE package_name = ?1 AND head_operatorbundle_name = ?2 AND (
    name = (SELECT default_channel FROM package WHERE package.name = ?1)
    OR EXISTS (
        SELECT 1 FROM channel_entry AS entry
        JOIN channel_entry AS below ON below.entry_id = entry.replaces
        JOIN operatorbundle AS bundle ON bundle.name = below.operatorbundle_name
        WHERE entry.package_name = ?1 AND entry.channel_name = channel.name
            AND entry.operatorbundle_name = ?2 AND entry.depth = 0
    )
)"""


class IndexedPackage(Struct, frozen=True):
    """The images and names of the bundles in the channels of a package; the image of a bundle without one is ""."""

    images: frozenset[str]
    names: frozenset[str]


def indexed_package(database: IndexDatabase, package: str) -> IndexedPackage:
    """Return the bundles of a package, none for an unknown package."""
    rows = database.connection.execute(
        "SELECT DISTINCT name, bundlepath FROM channel_entry "
        "JOIN operatorbundle ON name BETWEEN operatorbundle_name AND operatorbundle_name WHERE package_name = ?",
        (package,),
    ).fetchall()
    return IndexedPackage(frozenset(path for _, path in rows if path is not None), frozenset(name for name, _ in rows))


def default_channel(database: IndexDatabase, package: str) -> str:
    """Return the default channel of a package, or "" if it has none or is unknown."""
    row = database.connection.execute("SELECT default_channel FROM package WHERE name = ?", (package,)).fetchone()
    return (row and row[0]) or ""


def channel_nodes(database: IndexDatabase, package: str) -> dict[str, list[ChannelNode]]:
    """Return the bundles of each channel of a package with their edges, by the name of the channel."""
    channels = database.connection.execute("SELECT name FROM channel WHERE package_name = ?", (package,))
    found: dict[str, dict[tuple[str, str], list[str]]] = {name: {} for (name,) in channels}
    for channel, name, version, target in database.connection.execute(_CHANNEL_NODES, (package,)):
        targets = found.setdefault(channel, {}).setdefault((name, version), [])
        if target is not None and target not in targets:
            targets.append(target)
    return {
        channel: [ChannelNode(name, version, tuple(targets)) for (name, version), targets in bundles.items()]
        for channel, bundles in found.items()
    }


def package_members(database: IndexDatabase, package: str) -> list[Member]:
    """Return the bundles of a package with the channels of their entries and the package's default channel."""
    default = default_channel(database, package)
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), json_group_array(DISTINCT channel_name) FROM channel_entry "
        "JOIN operatorbundle ON name BETWEEN operatorbundle_name AND operatorbundle_name "
        "WHERE package_name = ? GROUP BY name ORDER BY name",
        (package,),
    )
    return [Member(name, version, tuple(json.loads(channels)), default) for name, version, channels in rows]


def nodes(database: IndexDatabase, names: Iterable[str]) -> dict[str, Node]:
    """Return existing bundles and, transitively, the bundles that they replace, by name."""
    return _by_name(database.connection.execute(_NODES, (json.dumps(list(names)),)))


def all_nodes(database: IndexDatabase) -> dict[str, Node]:
    """Return all bundles, including those in no channel, by name."""
    return _by_name(
        database.connection.execute("SELECT name, version, replaces, skips, substitutesfor FROM operatorbundle")
    )


def _by_name(rows: Iterable[tuple[str, str | None, str | None, str | None, str | None]]) -> dict[str, Node]:
    return {
        name: Node(name, version or "", replaces or "", tuple(skips.split(",")) if skips else (), substitutes_for or "")
        for name, version, replaces, skips, substitutes_for in rows
    }


def update_edges(database: IndexDatabase, changed: Iterable[Node]) -> None:
    """Change the edges of bundles; their ClusterServiceVersions are not changed."""
    database.connection.executemany(
        "UPDATE operatorbundle SET replaces = ?, skips = ?, substitutesfor = ? WHERE name = ?",
        [(node.replaces, ",".join(node.skips), node.substitutes_for, node.name) for node in changed],
    )


def deprecated_bundles(database: IndexDatabase) -> frozenset[str]:
    """Return the names in the table ``deprecated``."""
    return frozenset(name for (name,) in database.connection.execute("SELECT operatorbundle_name FROM deprecated"))


def name_owners(database: IndexDatabase, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the (name, package) pairs of channel entries with these names, sorted."""
    return database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, package_name FROM channel_entry "
        "WHERE operatorbundle_name IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
        (json.dumps(list(names)),),
    ).fetchall()


def bundles_replacing(database: IndexDatabase, package: str, name: str) -> list[tuple[str, str]]:
    """Return the (channel, bundle) pairs that replace or skip a bundle in a package, sorted."""
    return database.connection.execute(_REPLACING, (package, name)).fetchall()


def delete_head(database: IndexDatabase, package: str, name: str) -> None:
    """Delete a channel head, so that a bundle of the same name can be inserted.

    The default channel, and channels where it replaces an existing bundle, remain without a head until
    `replace_package`. Other channels that it heads are deleted.
    """
    connection = database.connection
    connection.execute(_CLEAR_HEAD, (package, name))
    connection.execute("DELETE FROM operatorbundle WHERE name = ?", (name,))
    for table in ("api_provider", "api_requirer", "deprecated"):
        connection.execute(f"DELETE FROM {table} WHERE operatorbundle_name = ?", (name,))  # noqa: S608 - constant names
    connection.execute("DELETE FROM channel_entry WHERE package_name = ? AND operatorbundle_name = ?", (package, name))


def replace_package(database: IndexDatabase, graph: PackageGraph) -> None:
    """Replace a package and all of its channels.

    As in operator-registry, every bundle on the replaces chain of a channel gets another ``olm.package`` property.
    """
    connection = database.connection
    for table, column in (("package", "name"), ("channel", "package_name"), ("channel_entry", "package_name")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (graph.name,))  # noqa: S608 - constant names
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


def replace_channels(database: IndexDatabase, graph: PackageGraph) -> None:
    """Insert or replace the channels of ``graph`` in a package; other channels of it are not changed."""
    connection = database.connection
    connection.executemany(
        "INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET head_operatorbundle_name = excluded.head_operatorbundle_name",
        [(channel.name, graph.name, channel.head) for channel in graph.channels],
    )
    connection.execute(
        "INSERT INTO package VALUES (?, ?) ON CONFLICT DO UPDATE SET default_channel = excluded.default_channel",
        (graph.name, graph.default_channel),
    )
    for channel in graph.channels:
        connection.execute(
            "DELETE FROM channel_entry WHERE channel_name = ? AND package_name = ?", (channel.name, graph.name)
        )
        _insert_entries(database, graph.name, channel)


def _insert_entries(database: IndexDatabase, package: str, channel: ChannelGraph) -> None:
    connection = database.connection
    first: int = connection.execute("SELECT coalesce(max(entry_id), 0) + 1 FROM channel_entry").fetchone()[0]
    connection.executemany(
        "INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [
            (first + position, channel.name, package, entry.name, _entry_id(first, entry.replaces), entry.depth)
            for position, entry in enumerate(channel.entries)
        ],
    )


def _entry_id(first: int, position: int | None) -> int | None:
    return None if position is None else first + position


class ChannelHead(NamedTuple):
    """The name and image of the head of a channel."""

    channel: str
    bundle: str
    image: str


class ChannelBundle(NamedTuple):
    """A bundle in a channel. An absent version or image is ""."""

    name: str
    version: str
    image: str


def channel_bundles(database: IndexDatabase, package: str) -> list[ChannelBundle]:
    """Return the bundles in the channels of a package, ordered by name."""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), coalesce(bundlepath, '') FROM operatorbundle WHERE name IN "
        "(SELECT operatorbundle_name FROM channel_entry WHERE package_name = ?) ORDER BY name",
        (package,),
    )
    return list(map(ChannelBundle._make, rows))


def channel_heads(database: IndexDatabase, package: str) -> list[ChannelHead]:
    """Return the heads of the channels of a package, ordered by channel."""
    rows = database.connection.execute(
        "SELECT channel.name, coalesce(head_operatorbundle_name, ''), coalesce(bundlepath, '') FROM channel "
        "LEFT JOIN operatorbundle ON operatorbundle.name = head_operatorbundle_name "
        "WHERE package_name = ? ORDER BY channel.name",
        (package,),
    )
    return list(map(ChannelHead._make, rows))


def default_heads(database: IndexDatabase) -> dict[str, str]:
    """Map the head of each default channel to its package."""
    rows = database.connection.execute(
        "SELECT head_operatorbundle_name, package.name FROM package "
        "JOIN channel ON channel.package_name = package.name AND channel.name = default_channel"
    )
    return dict(rows.fetchall())


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
