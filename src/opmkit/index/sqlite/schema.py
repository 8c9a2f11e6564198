"""The schema of index databases, version 13, as operator-registry defines it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION = 13

_FIRST_TABLES = {"operatorbundle", "package", "channel", "channel_entry", "api", "api_provider"}

_BUNDLE_COLUMNS = """
    operatorbundle_name TEXT,
    operatorbundle_version TEXT,
    operatorbundle_path TEXT"""
_BUNDLE_KEY = """
    FOREIGN KEY (operatorbundle_name, operatorbundle_version, operatorbundle_path)
        REFERENCES operatorbundle (name, version, bundlepath) ON DELETE CASCADE"""


_SAME_API = "{0}.group_name = OLD.group_name AND {0}.version = OLD.version AND {0}.kind = OLD.kind"


def _cleanup_trigger(table: str, in_use: str) -> str:
    """Return the trigger that deletes an API when one of its rows in a table is deleted, unless ``in_use`` is true."""
    return f"""
CREATE TRIGGER {table}_cleanup AFTER DELETE ON {table}
WHEN NOT ({in_use})
BEGIN
    DELETE FROM api WHERE {_SAME_API.format("api")};
END;"""  # noqa: S608 - constant names


def _api_use_table(name: str) -> str:
    """Return a table of the APIs that bundles provide or require, and its trigger.

    The condition of the trigger is that of operator-registry. It searches the product of both tables, so while one of
    them is empty, the API is deleted even if another bundle provides or requires it.
    """
    in_use = f"""EXISTS (
    SELECT 1 FROM api_provider JOIN api_requirer
    WHERE ({_SAME_API.format("api_provider")}) OR ({_SAME_API.format("api_requirer")})
)"""  # noqa: S608 - constant names
    return f"""
CREATE TABLE {name} (
    group_name TEXT,
    version TEXT,
    kind TEXT,{_BUNDLE_COLUMNS},{_BUNDLE_KEY} DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (group_name, version, kind) REFERENCES api (group_name, version, kind) ON DELETE CASCADE
);{_cleanup_trigger(name, in_use)}"""


_TABLES = f"""
CREATE TABLE schema_migrations (
    version BIGINT NOT NULL,
    timestamp DATETIME DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE operatorbundle (
    name TEXT PRIMARY KEY,
    csv TEXT,
    bundle TEXT,
    bundlepath TEXT,
    skiprange TEXT,
    version TEXT,
    replaces TEXT,
    skips TEXT,
    substitutesfor TEXT
);
CREATE UNIQUE INDEX pk ON operatorbundle (name, version, bundlepath);
CREATE TABLE channel (
    name TEXT,
    package_name TEXT,
    head_operatorbundle_name TEXT,
    PRIMARY KEY (name, package_name),
    FOREIGN KEY (head_operatorbundle_name) REFERENCES operatorbundle (name) ON DELETE CASCADE
);
CREATE TABLE package (
    name TEXT PRIMARY KEY,
    default_channel TEXT,
    FOREIGN KEY (name, default_channel) REFERENCES channel (package_name, name) ON DELETE CASCADE
);
CREATE TABLE channel_entry (
    entry_id INTEGER PRIMARY KEY,
    channel_name TEXT,
    package_name TEXT,
    operatorbundle_name TEXT,
    replaces INTEGER,
    depth INTEGER,
    FOREIGN KEY (replaces) REFERENCES channel_entry (entry_id) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (channel_name, package_name) REFERENCES channel (name, package_name) ON DELETE CASCADE
);
CREATE TABLE api (
    group_name TEXT,
    version TEXT,
    kind TEXT,
    plural TEXT NOT NULL,
    PRIMARY KEY (group_name, version, kind)
);
CREATE TABLE dependencies (
    type TEXT,
    value TEXT,{_BUNDLE_COLUMNS},{_BUNDLE_KEY}
);
CREATE TABLE properties (
    type TEXT,
    value TEXT,{_BUNDLE_COLUMNS},{_BUNDLE_KEY}
);
CREATE TABLE related_image (
    image TEXT,
    operatorbundle_name TEXT,
    FOREIGN KEY (operatorbundle_name) REFERENCES operatorbundle (name) ON DELETE CASCADE
);
CREATE TABLE deprecated (
    operatorbundle_name TEXT PRIMARY KEY
);"""

_TEXT, _INTEGER = ("text", "null"), ("integer", "null")
_KEY = ("text",)
_JSON = ("text", "null", "blob")
_BUNDLE_REFERENCE = dict.fromkeys(("operatorbundle_name", "operatorbundle_version", "operatorbundle_path"), _TEXT)
_API = dict.fromkeys(("group_name", "version", "kind"), _TEXT)
COLUMN_TYPES: dict[str, dict[str, tuple[str, ...]]] = {
    "operatorbundle": {
        "name": _KEY,
        "csv": _JSON,
        "bundle": _JSON,
        **dict.fromkeys(("bundlepath", "skiprange", "version", "replaces", "skips", "substitutesfor"), _TEXT),
    },
    "channel": {"name": _KEY, "package_name": _KEY, "head_operatorbundle_name": _TEXT},
    "package": {"name": _KEY, "default_channel": _TEXT},
    "channel_entry": {
        **dict.fromkeys(("channel_name", "package_name", "operatorbundle_name"), _KEY),
        **dict.fromkeys(("entry_id", "replaces", "depth"), _INTEGER),
    },
    "api": {**_API, "plural": _TEXT},
    "dependencies": {"type": _TEXT, "value": _JSON, **_BUNDLE_REFERENCE},
    "properties": {"type": _TEXT, "value": _JSON, **_BUNDLE_REFERENCE},
    "related_image": {"image": _TEXT, "operatorbundle_name": _TEXT},
    "deprecated": {"operatorbundle_name": _TEXT},
    "api_provider": {**_API, **_BUNDLE_REFERENCE},
    "api_requirer": {**_API, **_BUNDLE_REFERENCE},
}
"""The storage classes that SQLite reports for the values of each column, the usual one first."""

# An equivalent of the trigger condition that does not search the product of the tables.
_IN_USE = " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE {_SAME_API.format(table)}) AND EXISTS (SELECT 1 FROM {other})"  # noqa: S608 - constant names
    for table, other in (("api_provider", "api_requirer"), ("api_requirer", "api_provider"))
)

# Indexes of the work copy only. Without them each deletion scans all tables with a foreign key to the row.
_WORK_INDEXES = f"""
CREATE INDEX work_entry_replaces ON channel_entry (replaces);
CREATE INDEX work_entry_channel ON channel_entry (channel_name, package_name);
CREATE INDEX work_entry_package ON channel_entry (package_name);
CREATE INDEX work_entry_bundle ON channel_entry (operatorbundle_name);
CREATE INDEX work_provider ON api_provider (operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX work_requirer ON api_requirer (operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX work_dependencies ON dependencies (operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX work_properties ON properties (operatorbundle_name, operatorbundle_version, operatorbundle_path);
CREATE INDEX work_related_image ON related_image (operatorbundle_name);
CREATE INDEX work_provided_api ON api_provider (group_name, version, kind);
CREATE INDEX work_required_api ON api_requirer (group_name, version, kind);
DROP TRIGGER api_provider_cleanup;
DROP TRIGGER api_requirer_cleanup;
{_cleanup_trigger("api_provider", _IN_USE)}
{_cleanup_trigger("api_requirer", _IN_USE)}
"""


def create_schema(connection: sqlite3.Connection, timestamp: str) -> None:
    """Create the tables in an empty database; ``timestamp`` (UTC) is the time of the schema migration."""
    tables = _TABLES + _api_use_table("api_provider") + _api_use_table("api_requirer")
    connection.executescript(f"BEGIN; {tables} COMMIT;")
    connection.execute("INSERT INTO schema_migrations (version, timestamp) VALUES (?, ?)", (SCHEMA_VERSION, timestamp))


def create_work_indexes(connection: sqlite3.Connection) -> None:
    """Create indexes for fast changes of a work copy; `write_compact` omits them."""
    connection.executescript(_WORK_INDEXES)


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return whether the database contains any object."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def schema_version(connection: sqlite3.Connection) -> int | None:
    """Return the schema version of an index database, None for another database.

    The version is 0 if the database predates the table ``schema_migrations``.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "schema_migrations" not in tables:
        return 0 if tables >= _FIRST_TABLES else None
    version = connection.execute("SELECT max(version) FROM schema_migrations").fetchone()[0]
    return version if isinstance(version, int) and version >= 0 else None
