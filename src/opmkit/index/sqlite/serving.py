"""Queries of a server about an index database: packages, update edges, providers of APIs, and content of bundles.

The tables have few indexes, since they are optimized for changes. Each connection copies their small columns into
temporary tables with the indexes that the queries need. The database itself is only read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opmkit.core.scratch import ScratchDirectory
from opmkit.index.errors import DatabaseUnavailable
from opmkit.index.sqlite.connect import TextDecoder, check_objects, connect
from opmkit.index.sqlite.database import current_database
from opmkit.index.sqlite.replace import replace_database
from opmkit.index.sqlite.schema import has_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ServedDatabase(Struct, frozen=True):
    """An index database to serve: the file, its number of bundles, and whether it has any tables."""

    path: Path
    bundles: int
    tables: bool


class ServedHead(NamedTuple):
    """A channel with its head and the default channel of its package."""

    package: str
    default_channel: str
    channel: str
    bundle: str


class ChannelEntry(NamedTuple):
    """A bundle in a channel, and a bundle that it replaces or skips there, or "" if there is none."""

    package: str
    channel: str
    bundle: str
    replaces: str = ""


class ListedBundle(NamedTuple):
    """A bundle, by number, in a channel, with its edges there; ``skips`` are separated by commas."""

    package: str
    channel: str
    number: int
    replaces: str
    skips: str | None


class PropertyValue(NamedTuple):
    """A property or dependency, with the version and image of a bundle in its row."""

    type: str | None
    value: str | None
    version: str | None
    image: str | None


class ServedBundle(NamedTuple):
    """The stored content of a bundle; ``manifests`` are JSON documents, None if they are not stored."""

    name: str
    version: str | None
    image: str | None
    skip_range: str
    manifests: bytes | None
    properties: list[PropertyValue]
    dependencies: list[PropertyValue]


@contextmanager
def served_database(path: Path, *, migrate: bool) -> Iterator[ServedDatabase]:
    """Yield the database at ``path`` in the current schema, migrated in a private copy if necessary.

    An empty file is an empty index. Without ``migrate`` yield the file itself; queries of missing tables fail.

    Raises:
        InvalidDatabase: The file is not an index database, is damaged, or has a newer schema.
        DatabaseUnavailable: The file does not exist or cannot be read.
    """
    with (
        _with_tables(path) if migrate else nullcontext(path) as created,
        current_database(created, migrate=migrate) as current,
    ):
        with closing(_connect(current)) as connection:
            check_objects(connection, path)
            tables = has_tables(connection)
            bundles = connection.execute("SELECT count(*) FROM operatorbundle").fetchone()[0] if tables else 0
        yield ServedDatabase(current, bundles, tables)


@contextmanager
def _with_tables(path: Path) -> Iterator[Path]:
    """Yield ``path``, or a temporary database with empty tables if the file is empty."""
    if not path.is_file() or path.stat().st_size:
        yield path
        return
    with ScratchDirectory("opm-index-") as scratch:
        created = Path(scratch, "index.db")
        with replace_database(created, durable=False):
            pass
        yield created


def _connect(path: Path) -> sqlite3.Connection:
    """Open a long-lived connection for reading; other processes may write between two queries."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = connect(uri, check_same_thread=False)
    try:
        has_tables(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
            raise
        # A database with a write-ahead log needs a writable directory. Without one, no other process can have it open.
        connection = connect(f"{uri}&immutable=1", check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.text_factory = TextDecoder()
    return connection


class IndexQueries:
    """The queries of a server over its own connection.

    All except those for lists and content are fast. Absent texts are empty unless documented otherwise. Every query
    may raise DatabaseUnavailable with the message of SQLite.
    """

    def __init__(self, database: ServedDatabase) -> None:
        """Open the connection."""
        self._connection = _connect(database.path)
        self._created: set[str] = set()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def create_tables(self) -> None:
        """Create the temporary tables of channel entries and APIs now instead of at the first query."""
        self._query(PACKAGES, needs=(ENTRY_TABLES, PROVIDED_TABLE))

    def packages(self) -> list[str]:
        """Return the names of all packages."""
        return [name for (name,) in self._query(PACKAGES)]

    def heads(self) -> list[ServedHead]:
        """Return all channels, ordered by package and name."""
        return [ServedHead._make(row) for row in self._query(HEADS)]

    def head_numbers(self) -> list[tuple[str, str, int]]:
        """Return the package, name and number of the head of every channel that has one."""
        return self._query(HEAD_NUMBERS, needs=(ENTRY_TABLES,))

    def bundle_in_channel(self, package: str, channel: str, bundle: str) -> int | None:
        """Return the number of a bundle in a channel, which may only be skipped there."""
        return self._number(BUNDLE_IN_CHANNEL, package, channel, bundle)

    def entries_replacing(self, bundle: str) -> list[ChannelEntry]:
        """Return the entries that replace or skip a bundle."""
        return [
            ChannelEntry(package, channel, name, bundle)
            for package, channel, name in self._query(ENTRIES_REPLACING, bundle, needs=(ENTRY_TABLES,))
        ]

    def replacement(self, bundle: str, package: str, channel: str) -> int | None:
        """Return the number of the bundle nearest to the head of a channel that replaces or skips ``bundle`` there."""
        return self._number(REPLACEMENT, bundle, package, channel)

    def entries_providing(self, api: str) -> list[ChannelEntry]:
        """Return the entries of the bundles that provide an API; ``api`` is the value of its property."""
        return [
            ChannelEntry._make(row) for row in self._query(ENTRIES_PROVIDING, api, needs=(ENTRY_TABLES, PROVIDED_TABLE))
        ]

    def latest_entries_providing(self, api: str) -> list[ChannelEntry]:
        """Return the entry nearest to the head in each channel that provides an API."""
        return [
            ChannelEntry._make(row) for row in self._query(LATEST_PROVIDING, api, needs=(ENTRY_TABLES, PROVIDED_TABLE))
        ]

    def default_provider(self, api: str) -> tuple[str, str, int] | None:
        """Return package, channel and bundle number of the first default channel, by package, that provides an API.

        Return None if there is no such channel, or if the manifests of the bundle are not stored.
        """
        rows = self._query(DEFAULT_PROVIDER, api, needs=(ENTRY_TABLES, PROVIDED_TABLE))
        return rows[0] if rows else None

    def list_bundles(self) -> list[ListedBundle]:
        """Return every bundle in every channel, ordered by package, channel and name."""
        return [ListedBundle._make(row) for row in self._query(LISTED_BUNDLES, needs=(ENTRY_TABLES,))]

    def bundle(self, number: int, *, omit_manifests: bool = False) -> ServedBundle:
        """Return the content of a bundle; with ``omit_manifests``, without the manifests if it has an image."""
        ((name, version, image, skip_range, manifests),) = self._query(
            BUNDLE, omit_manifests, number, needs=(ENTRY_TABLES, VALUE_TABLES)
        )
        properties = [PropertyValue._make(row) for row in self._query(PROPERTIES, name)]
        dependencies = [PropertyValue._make(row) for row in self._query(DEPENDENCIES, name)]
        return ServedBundle(name, version, image, skip_range, manifests, properties, dependencies)

    def csv(self, number: int) -> tuple[str, bytes]:
        """Return the name and the ClusterServiceVersion of a bundle."""
        ((name, csv),) = self._query(CSV, number, needs=(ENTRY_TABLES,))
        return name, csv

    def plural(self, group: str, version: str, kind: str) -> str:
        """Return the plural of a kind."""
        rows = self._query(PLURAL, group, version, kind)
        return rows[0][0] or "" if rows else ""

    def _number(self, query: str, *values: str) -> int | None:
        rows = self._query(query, *values, needs=(ENTRY_TABLES,))
        return rows[0][0] if rows else None

    def _query(self, query: str, *values: object, needs: Sequence[str] = ()) -> list[Any]:
        try:
            for tables in needs:
                self._create(tables)
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DatabaseUnavailable(str(error)) from error

    def _create(self, tables: str) -> None:
        if tables in self._created:
            return
        try:
            self._connection.executescript(f"BEGIN; {tables} COMMIT;")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._created.add(tables)


GVK = "olm.gvk"
"""The type of properties and dependencies that name an API."""

ENTRY_TABLES = """
CREATE TEMP TABLE entry (id INTEGER PRIMARY KEY, package, channel, bundle, replaces, depth);
INSERT INTO entry SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry;
CREATE INDEX temp.entry_place ON entry (package, channel, bundle);
CREATE INDEX temp.entry_bundle ON entry (bundle);
CREATE INDEX temp.entry_replaces ON entry (replaces);
CREATE TEMP TABLE bundle (number INTEGER PRIMARY KEY, name UNIQUE);
INSERT INTO bundle (name) SELECT name FROM operatorbundle WHERE name IS NOT NULL ORDER BY name;
"""
PROVIDED_TABLE = f"""
CREATE TEMP TABLE provided (api, bundle, PRIMARY KEY (api, bundle)) WITHOUT ROWID;
INSERT OR IGNORE INTO provided SELECT value, operatorbundle_name FROM properties
WHERE type = '{GVK}' AND value IS NOT NULL AND operatorbundle_name IS NOT NULL;
"""  # noqa: S608 - constant names
VALUE_TABLES = """
CREATE TEMP TABLE property_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO property_row SELECT operatorbundle_name, rowid FROM properties WHERE operatorbundle_name IS NOT NULL;
CREATE TEMP TABLE dependency_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO dependency_row SELECT operatorbundle_name, rowid FROM dependencies WHERE operatorbundle_name IS NOT NULL;
"""

PACKAGES = "SELECT DISTINCT name FROM package WHERE name IS NOT NULL ORDER BY name"
HEADS = """
SELECT DISTINCT package.name, coalesce(default_channel, ''), coalesce(channel.name, ''),
    coalesce(head_operatorbundle_name, '')
FROM package JOIN channel ON channel.package_name = package.name
WHERE package.name IS NOT NULL ORDER BY 1, 3, 4"""
HEAD_NUMBERS = """
SELECT coalesce(package_name, ''), coalesce(channel.name, ''), number
FROM channel JOIN bundle ON bundle.name = head_operatorbundle_name"""
BUNDLE_IN_CHANNEL = """
SELECT number FROM entry JOIN bundle ON name = bundle WHERE package = ? AND channel = ? AND bundle = ? LIMIT 1"""
ENTRIES_REPLACING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), coalesce(entry.bundle, '')
FROM entry AS before JOIN entry ON entry.replaces = before.id WHERE before.bundle = ? ORDER BY 1, 2, 3"""
REPLACEMENT = """
SELECT number FROM entry AS before JOIN entry ON entry.replaces = before.id JOIN bundle ON name = entry.bundle
WHERE before.bundle = ? AND before.package = ? AND before.channel = ?
ORDER BY entry.depth IS NULL, entry.depth, name LIMIT 1"""
ENTRIES_PROVIDING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), entry.bundle, coalesce(before.bundle, '')
FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
WHERE api = ? ORDER BY 1, 2, 3, 4"""
# The entry with the smallest depth in each channel, then the first by name.
LATEST_PROVIDING = """
SELECT package, channel, bundle, replaces FROM (
    SELECT coalesce(entry.package, '') AS package, coalesce(entry.channel, '') AS channel, entry.bundle AS bundle,
        coalesce(before.bundle, '') AS replaces, row_number() OVER (
            PARTITION BY entry.package, entry.channel
            ORDER BY entry.depth IS NULL, entry.depth, entry.bundle, before.bundle
        ) AS place
    FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
    WHERE api = ?
) WHERE place = 1 ORDER BY 1, 2"""
DEFAULT_PROVIDER = """
SELECT package, channel, number FROM (
    SELECT entry.package AS package, entry.channel AS channel, number, name AS chosen
    FROM provided JOIN entry ON entry.bundle = provided.bundle JOIN bundle ON name = entry.bundle
    WHERE api = ? AND (entry.package, entry.channel) IN (SELECT name, default_channel FROM package)
    ORDER BY 1, entry.depth IS NULL, entry.depth, name LIMIT 1
) WHERE (SELECT operatorbundle.bundle FROM operatorbundle WHERE operatorbundle.name = chosen) IS NOT NULL"""

# The edges of entries on the chain from the heads are replaces, other edges are skips. The heads are the entries with
# the smallest depth of the whole index, since depths start at 0 in every channel.
LISTED_BUNDLES = """
WITH RECURSIVE chain (id, replaces) AS (
    SELECT id, replaces FROM entry WHERE depth = (SELECT min(depth) FROM entry)
    UNION
    SELECT entry.id, entry.replaces FROM chain JOIN entry ON entry.id = chain.replaces
), skipped (package, channel, bundle, skips) AS (
    SELECT coalesce(entry.package, ''), entry.channel, entry.bundle, group_concat(before.bundle, ',')
    FROM entry JOIN entry AS before ON before.id = entry.replaces
    WHERE NOT EXISTS (SELECT 1 FROM chain WHERE chain.id = entry.id)
    GROUP BY 1, 2, 3
), listed (package, channel, bundle, replaces) AS (
    SELECT coalesce(entry.package, ''), entry.channel, entry.bundle, max(before.bundle)
    FROM entry LEFT JOIN chain ON chain.id = entry.id LEFT JOIN entry AS before ON before.id = chain.replaces
    GROUP BY 1, 2, 3
)
SELECT listed.package, listed.channel, number, coalesce(replaces, ''), skips
FROM listed JOIN bundle ON name = listed.bundle LEFT JOIN skipped
    ON skipped.package = listed.package AND skipped.channel = listed.channel AND skipped.bundle = listed.bundle
WHERE listed.channel IS NOT NULL
ORDER BY 1, 2, listed.bundle"""

BUNDLE = """
SELECT name, version, bundlepath, coalesce(skiprange, ''),
    CASE WHEN ? AND length(coalesce(bundlepath, '')) > 0 THEN NULL ELSE CAST(bundle AS BLOB) END
FROM operatorbundle WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
CSV = """
SELECT name, CAST(coalesce(csv, '') AS BLOB) FROM operatorbundle
WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
_VALUES_OF = """
SELECT CAST(type AS TEXT), CAST(value AS TEXT), operatorbundle_version, operatorbundle_path
FROM {0} JOIN {1} ON number = {0}.rowid WHERE bundle = ? ORDER BY 1, 2, 3, 4"""
PROPERTIES = _VALUES_OF.format("properties", "property_row")
DEPENDENCIES = _VALUES_OF.format("dependencies", "dependency_row")
PLURAL = "SELECT plural FROM api WHERE group_name = ? AND version = ? AND kind = ?"
