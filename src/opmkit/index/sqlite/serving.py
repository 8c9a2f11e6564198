"""What a server asks of an index database: who is where, who replaces and provides what, what bundles hold.

The tables have few indexes: they are made for those who change them. A server asks the same again and again, so it
keeps copies of the small columns in temporary tables of its connections, with the indexes that its questions need. The
database itself is only read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.errors import DatabaseUnavailable
from opmkit.index.sqlite.connect import check_objects, connect
from opmkit.index.sqlite.files import current_database, replace_database
from opmkit.index.sqlite.schema import has_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GVK = "olm.gvk"
"""The type of the properties and dependencies that name an API."""

_ENTRIES = """
CREATE TEMP TABLE entry (id INTEGER PRIMARY KEY, package, channel, bundle, replaces, depth);
INSERT INTO entry SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry;
CREATE INDEX temp.entry_place ON entry (package, channel, bundle);
CREATE INDEX temp.entry_bundle ON entry (bundle);
CREATE INDEX temp.entry_replaces ON entry (replaces);
CREATE TEMP TABLE bundle (number INTEGER PRIMARY KEY, name UNIQUE);
INSERT INTO bundle (name) SELECT name FROM operatorbundle WHERE name IS NOT NULL ORDER BY name;
"""
_PROVIDED = f"""
CREATE TEMP TABLE provided (api, bundle, PRIMARY KEY (api, bundle)) WITHOUT ROWID;
INSERT OR IGNORE INTO provided SELECT value, operatorbundle_name FROM properties
WHERE type = '{GVK}' AND value IS NOT NULL AND operatorbundle_name IS NOT NULL;
"""  # noqa: S608 - constant names
_VALUES = """
CREATE TEMP TABLE property_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO property_row SELECT operatorbundle_name, rowid FROM properties WHERE operatorbundle_name IS NOT NULL;
CREATE TEMP TABLE dependency_row (bundle, number, PRIMARY KEY (bundle, number)) WITHOUT ROWID;
INSERT INTO dependency_row SELECT operatorbundle_name, rowid FROM dependencies WHERE operatorbundle_name IS NOT NULL;
"""

_PACKAGES = "SELECT DISTINCT name FROM package WHERE name IS NOT NULL ORDER BY name"
_HEADS = """
SELECT DISTINCT package.name, coalesce(default_channel, ''), coalesce(channel.name, ''),
    coalesce(head_operatorbundle_name, '')
FROM package JOIN channel ON channel.package_name = package.name
WHERE package.name IS NOT NULL ORDER BY 1, 3, 4"""
_HEAD_NUMBERS = """
SELECT coalesce(package_name, ''), coalesce(channel.name, ''), number
FROM channel JOIN bundle ON bundle.name = head_operatorbundle_name"""
_PLACED = """
SELECT number FROM entry JOIN bundle ON name = bundle WHERE package = ? AND channel = ? AND bundle = ? LIMIT 1"""
_REPLACING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), coalesce(entry.bundle, '')
FROM entry AS before JOIN entry ON entry.replaces = before.id WHERE before.bundle = ? ORDER BY 1, 2, 3"""
_REPLACEMENT = """
SELECT number FROM entry AS before JOIN entry ON entry.replaces = before.id JOIN bundle ON name = entry.bundle
WHERE before.bundle = ? AND before.package = ? AND before.channel = ?
ORDER BY entry.depth IS NULL, entry.depth, name LIMIT 1"""
_PROVIDING = """
SELECT DISTINCT coalesce(entry.package, ''), coalesce(entry.channel, ''), entry.bundle, coalesce(before.bundle, '')
FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
WHERE api = ? ORDER BY 1, 2, 3, 4"""
# Of each channel the entry of the smallest depth; of several the first by name.
_LATEST = """
SELECT package, channel, bundle, replaces FROM (
    SELECT coalesce(entry.package, '') AS package, coalesce(entry.channel, '') AS channel, entry.bundle AS bundle,
        coalesce(before.bundle, '') AS replaces, row_number() OVER (
            PARTITION BY entry.package, entry.channel
            ORDER BY entry.depth IS NULL, entry.depth, entry.bundle, before.bundle
        ) AS place
    FROM provided JOIN entry ON entry.bundle = provided.bundle LEFT JOIN entry AS before ON before.id = entry.replaces
    WHERE api = ?
) WHERE place = 1 ORDER BY 1, 2"""
_DEFAULT = """
SELECT package, channel, number FROM (
    SELECT entry.package AS package, entry.channel AS channel, number, name AS chosen
    FROM provided JOIN entry ON entry.bundle = provided.bundle JOIN bundle ON name = entry.bundle
    WHERE api = ? AND (entry.package, entry.channel) IN (SELECT name, default_channel FROM package)
    ORDER BY 1, entry.depth IS NULL, entry.depth, name LIMIT 1
) WHERE (SELECT operatorbundle.bundle FROM operatorbundle WHERE operatorbundle.name = chosen) IS NOT NULL"""

# The edge of a bundle in the chain from the tip is what it replaces, its other edges are what it skips. The tip are the
# entries of the smallest depth in the whole index, as those who write indexes number them from 0 in every channel.
_LISTED = """
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

_BUNDLE = """
SELECT name, version, bundlepath, coalesce(skiprange, ''),
    CASE WHEN ? AND length(coalesce(bundlepath, '')) > 0 THEN NULL ELSE CAST(bundle AS BLOB) END
FROM operatorbundle WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
_CSV = """
SELECT name, CAST(coalesce(csv, '') AS BLOB) FROM operatorbundle
WHERE name = (SELECT name FROM temp.bundle WHERE number = ?)"""
_VALUES_OF = """
SELECT CAST(type AS TEXT), CAST(value AS TEXT), operatorbundle_version, operatorbundle_path
FROM {0} JOIN {1} ON number = {0}.rowid WHERE bundle = ? ORDER BY 1, 2, 3, 4"""
_PROPERTIES = _VALUES_OF.format("properties", "property_row")
_DEPENDENCIES = _VALUES_OF.format("dependencies", "dependency_row")
_PLURAL = "SELECT plural FROM api WHERE group_name = ? AND version = ? AND kind = ?"


@dataclass(frozen=True, slots=True)
class ServedDatabase:
    """An index database to be served: the file, how many bundles it has, and whether it has tables at all."""

    path: Path
    bundles: int
    tables: bool


class Head(NamedTuple):
    """A channel of a package, and its head."""

    package: str
    default_channel: str
    channel: str
    bundle: str


class Entry(NamedTuple):
    """A bundle in a channel, and one that it replaces or skips there ("" for none)."""

    package: str
    channel: str
    bundle: str
    replaces: str = ""


class Listed(NamedTuple):
    """A bundle, by its number, in a channel, with all that it replaces and skips there."""

    package: str
    channel: str
    number: int
    replaces: str
    skips: str | None


class Value(NamedTuple):
    """A property or dependency, and the version and image of the bundle that it says it is of."""

    type: str | None
    value: str | None
    version: str | None
    image: str | None


class StoredBundle(NamedTuple):
    """What an index holds of a bundle; ``manifests`` are JSON documents, or None where the index has none."""

    name: str
    version: str | None
    image: str | None
    skip_range: str
    manifests: bytes | None
    properties: list[Value]
    dependencies: list[Value]


@contextmanager
def served_database(path: Path, *, migrate: bool) -> Iterator[ServedDatabase]:
    """Give the database at ``path`` in the newest schema: the file itself, or where that is older a private copy.

    An empty file is an empty index. Without ``migrate`` it is the file itself, whatever its schema; what is missing
    there fails when it is asked for.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
    """
    with (
        _filled(path) if migrate else nullcontext(path) as filled,
        current_database(filled, migrate=migrate) as current,
    ):
        with closing(_connect(current)) as connection:
            check_objects(connection, path)
            tables = has_tables(connection)
            bundles = connection.execute("SELECT count(*) FROM operatorbundle").fetchone()[0] if tables else 0
        yield ServedDatabase(current, bundles, tables)


@contextmanager
def _filled(path: Path) -> Iterator[Path]:
    """The database at ``path``, or where that file is empty a private one without content."""
    if not path.is_file() or path.stat().st_size:
        yield path
        return
    with ScratchDirectory("opm-index-") as scratch:
        made = Path(scratch, "index.db")
        with replace_database(made, durable=False):
            pass
        yield made


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database to read it for long: others may write to it between two questions."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = connect(uri, check_same_thread=False)
    try:
        has_tables(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
            raise
        # A write-ahead log can't be opened in a directory without permission to write: then nobody else has it open.
        connection = connect(f"{uri}&immutable=1", check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


class ServedIndex:
    """The questions of a server to an index, over a connection of its own.

    All but those for lists and contents are quick. Texts that the database lacks are empty, unless said otherwise. Any
    may raise DatabaseUnavailable, with SQLite's words for what is wrong.
    """

    def __init__(self, database: ServedDatabase) -> None:
        """Open the connection."""
        self._connection = _connect(database.path)
        self._made: set[str] = set()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def make_tables(self) -> None:
        """Fill the tables for questions about places now, which otherwise happens at the first one."""
        self._ask(_PACKAGES, needs=(_ENTRIES, _PROVIDED))

    def packages(self) -> list[str]:
        """The names of all packages."""
        return [name for (name,) in self._ask(_PACKAGES)]

    def heads(self) -> list[Head]:
        """All channels, by package and name."""
        return [Head._make(row) for row in self._ask(_HEADS)]

    def head_numbers(self) -> list[tuple[str, str, int]]:
        """The package and name of every channel, and the number of the bundle that heads it, where there is one."""
        return self._ask(_HEAD_NUMBERS, needs=(_ENTRIES,))

    def placed(self, package: str, channel: str, bundle: str) -> int | None:
        """The number of a bundle that is in a channel, if only as one that is skipped there."""
        return self._number(_PLACED, package, channel, bundle)

    def replacing(self, bundle: str) -> list[Entry]:
        """Where a bundle is replaced or skipped, and by which others."""
        return [
            Entry(package, channel, name, bundle)
            for package, channel, name in self._ask(_REPLACING, bundle, needs=(_ENTRIES,))
        ]

    def replacement(self, bundle: str, package: str, channel: str) -> int | None:
        """The number of the bundle that replaces or skips one in a channel; of several the nearest to the head."""
        return self._number(_REPLACEMENT, bundle, package, channel)

    def providing(self, api: str) -> list[Entry]:
        """Every edge of the bundles with a property of an API; ``api`` is its value."""
        return [Entry._make(row) for row in self._ask(_PROVIDING, api, needs=(_ENTRIES, _PROVIDED))]

    def latest_providing(self, api: str) -> list[Entry]:
        """The entry nearest to the head in each channel that has bundles with a property of an API."""
        return [Entry._make(row) for row in self._ask(_LATEST, api, needs=(_ENTRIES, _PROVIDED))]

    def default_providing(self, api: str) -> tuple[str, str, int] | None:
        """Package, channel and bundle of the first default channel, by package, that provides an API.

        None where there is no such channel, or the index has no manifests of that bundle.
        """
        rows = self._ask(_DEFAULT, api, needs=(_ENTRIES, _PROVIDED))
        return rows[0] if rows else None

    def listed(self) -> list[Listed]:
        """Every bundle in every channel, by package, channel and name."""
        return [Listed._make(row) for row in self._ask(_LISTED, needs=(_ENTRIES,))]

    def bundle(self, number: int, *, omit_manifests: bool = False) -> StoredBundle:
        """What is said of a bundle itself; ``omit_manifests`` leaves those of bundles with an image out."""
        ((name, version, image, skip_range, manifests),) = self._ask(
            _BUNDLE, omit_manifests, number, needs=(_ENTRIES, _VALUES)
        )
        properties = [Value._make(row) for row in self._ask(_PROPERTIES, name)]
        dependencies = [Value._make(row) for row in self._ask(_DEPENDENCIES, name)]
        return StoredBundle(name, version, image, skip_range, manifests, properties, dependencies)

    def csv(self, number: int) -> tuple[str, bytes]:
        """The name and the ClusterServiceVersion of a bundle."""
        ((name, csv),) = self._ask(_CSV, number, needs=(_ENTRIES,))
        return name, csv

    def plural(self, group: str, version: str, kind: str) -> str:
        """The plural of an API's kind."""
        rows = self._ask(_PLURAL, group, version, kind)
        return rows[0][0] or "" if rows else ""

    def _number(self, question: str, *values: str) -> int | None:
        rows = self._ask(question, *values, needs=(_ENTRIES,))
        return rows[0][0] if rows else None

    def _ask(self, question: str, *values: object, needs: Sequence[str] = ()) -> list[Any]:
        try:
            for tables in needs:
                self._make(tables)
            return self._connection.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise DatabaseUnavailable(str(error)) from error

    def _make(self, tables: str) -> None:
        if tables in self._made:
            return
        try:
            self._connection.executescript(f"BEGIN; {tables} COMMIT;")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._made.add(tables)
