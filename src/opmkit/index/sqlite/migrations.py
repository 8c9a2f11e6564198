"""Migrations of index databases with older schemas.

Each step changes the data as the step of the same number in operator-registry, including its bugs, so that both tools
get the same index from a file. operator-registry fails on all databases of the schemas 0 to 4 that are not empty (its
steps 4 and 6 drop tables that are still referred to), so the first five steps implement their intention.

The steps ignore keys, triggers and constraints, since `write_compact` creates the schema afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.errors import BundleError
from opmkit.documents.errors import DocumentError
from opmkit.documents.json_value import encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from opmkit.bundle.model import ClusterServiceVersion

_API_TABLES = ("api_provider", "api_requirer")
_BUNDLE = "operatorbundle_name, operatorbundle_version, operatorbundle_path"


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Migrate the tables of a database of schema ``version``, below 13, so that `write_compact` can copy them.

    Raises:
        sqlite3.Error: A table or column of that schema is missing.
    """
    connection.execute("BEGIN")
    for step in _STEPS[version:]:
        step(connection)
    connection.execute("COMMIT")


def _related_images(connection: sqlite3.Connection) -> None:
    """1: add the images in each ClusterServiceVersion, without the bundle image."""
    connection.execute("CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT)")
    for name, csv in _service_versions(connection):
        images = sorted({*csv.operator_images, *csv.related_images})
        connection.executemany("INSERT INTO related_image VALUES (?, ?)", [(image, name) for image in images])


def _bundle_images(connection: sqlite3.Connection) -> None:
    """2: add bundle images."""
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN bundlepath TEXT")


def _required_apis(connection: sqlite3.Connection) -> None:
    """3: add the APIs that the bundle of each entry requires."""
    connection.execute("CREATE TABLE api_requirer (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER)")
    for name, csv in _service_versions(connection):
        for api in (*csv.required_crds, *csv.required_services):
            key = (api.group, api.version, api.kind)
            connection.execute("INSERT OR REPLACE INTO api VALUES (?, ?, ?, ?)", (*key, api.plural))
            connection.execute(
                "INSERT INTO api_requirer SELECT ?, ?, ?, entry_id FROM channel_entry WHERE operatorbundle_name = ?",
                (*key, name),
            )


def _versions(connection: sqlite3.Connection) -> None:
    """5: add versions and skip ranges of bundles."""
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN skiprange TEXT")
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN version TEXT")
    for name, csv in _service_versions(connection):
        connection.execute(
            "UPDATE operatorbundle SET version = ?, skiprange = ? WHERE name = ?", (csv.version, csv.skip_range, name)
        )


def _apis_of_bundles(connection: sqlite3.Connection) -> None:
    """6: assign APIs to bundles instead of entries."""
    for table in _API_TABLES:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        connection.execute(
            f"CREATE TABLE {table} AS SELECT DISTINCT api.group_name, api.version, api.kind, "  # noqa: S608 - constant names
            "name AS operatorbundle_name, bundle.version AS operatorbundle_version, bundlepath AS operatorbundle_path "
            f"FROM old_{table} AS api JOIN channel_entry ON entry_id = channel_entry_id "
            "JOIN operatorbundle AS bundle ON name = operatorbundle_name WHERE api.group_name IS NOT NULL "
            "AND api.version IS NOT NULL AND api.kind IS NOT NULL"
        )


def _edges(connection: sqlite3.Connection) -> None:
    """7: add edges of bundles: the target nearest to the head is replaced, the others are skipped."""
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN replaces TEXT")
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN skips TEXT")
    for name in _names(connection):
        rows = connection.execute(
            "SELECT DISTINCT replaced.operatorbundle_name FROM channel_entry AS entry "
            "LEFT JOIN channel_entry AS replaced ON entry.replaces = replaced.entry_id "
            "WHERE entry.operatorbundle_name = ? ORDER BY entry.depth",
            (name,),
        ).fetchall()
        targets = [target for (target,) in rows] or [None]
        connection.execute(
            "UPDATE operatorbundle SET replaces = ?, skips = ? WHERE name = ?",
            (targets[0] or "", ",".join(filter(None, targets[1:])), name),
        )


def _dependencies(connection: sqlite3.Connection) -> None:
    """8: add required APIs as dependencies."""
    connection.execute(
        "CREATE TABLE dependencies (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, "
        "operatorbundle_path TEXT)"
    )
    for group, version, kind, *bundle in _apis(connection, "api_requirer"):
        value = encode({"type": "olm.gvk", "group": group, "version": version, "kind": kind})
        connection.execute("INSERT INTO dependencies VALUES ('olm.gvk', ?, ?, ?, ?)", (value, *bundle))


def _properties(connection: sqlite3.Connection) -> None:
    """9: add packages and provided APIs as properties, and set all dependencies to the value of the first one."""
    connection.execute(
        "CREATE TABLE properties (type TEXT, value TEXT, operatorbundle_name TEXT, operatorbundle_version TEXT, "
        "operatorbundle_path TEXT)"
    )
    insert = "INSERT INTO properties VALUES (?, ?, ?, ?, ?)"
    provided = _apis(connection, "api_provider")
    for group, version, kind, *bundle in provided:
        value = encode({"group": group, "version": version, "kind": kind})
        connection.execute(insert, ("olm.gvk", value, *bundle))
    for bundle_key in dict.fromkeys(row[3:] for row in provided):
        name, bundle_version, _ = bundle_key
        row = connection.execute(
            "SELECT package_name FROM channel_entry WHERE operatorbundle_name = ? ORDER BY entry_id LIMIT 1", (name,)
        ).fetchone()
        value = encode({"packageName": (row and row[0]) or "", "version": bundle_version or ""})
        connection.execute(insert, ("olm.package", value, *bundle_key))
    connection.execute(
        "UPDATE dependencies SET value = "
        "(SELECT json_remove(CAST(value AS TEXT), '$.type') FROM dependencies ORDER BY rowid LIMIT 1)"
    )


def _images_of_properties(connection: sqlite3.Connection) -> None:
    """10: set the images of properties to those of the bundles with the same name and version."""
    connection.execute(
        "UPDATE properties SET operatorbundle_path = (SELECT bundlepath FROM operatorbundle "
        "WHERE name = operatorbundle_name AND version = operatorbundle_version)"
    )


def _substitutes(connection: sqlite3.Connection) -> None:
    """11: add substitutions."""
    connection.execute("ALTER TABLE operatorbundle ADD COLUMN substitutesfor TEXT")


def _deprecated(connection: sqlite3.Connection) -> None:
    """12: add deprecated bundles, from their properties."""
    connection.execute("CREATE TABLE deprecated (operatorbundle_name TEXT)")
    connection.execute(
        "INSERT INTO deprecated SELECT DISTINCT operatorbundle_name FROM properties WHERE type = 'olm.deprecated'"
    )


def _orphaned_deprecations(connection: sqlite3.Connection) -> None:
    """13: delete deprecations of missing bundles."""
    connection.execute(
        "DELETE FROM deprecated "
        "WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)"
    )


def _constraints(connection: sqlite3.Connection) -> None:
    """4: change only keys and constraints."""


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _related_images,
    _bundle_images,
    _required_apis,
    _constraints,
    _versions,
    _apis_of_bundles,
    _edges,
    _dependencies,
    _properties,
    _images_of_properties,
    _substitutes,
    _deprecated,
    _orphaned_deprecations,
)


def _names(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM operatorbundle WHERE name IS NOT NULL ORDER BY name")
    return [name for (name,) in rows]


def _service_versions(connection: sqlite3.Connection) -> Iterator[tuple[str, ClusterServiceVersion]]:
    """Yield the bundles with a valid ClusterServiceVersion, ordered by name, one at a time."""
    for name in _names(connection):
        (csv,) = connection.execute("SELECT csv FROM operatorbundle WHERE name = ?", (name,)).fetchone()
        try:
            yield name, read_csv(csv.encode() if isinstance(csv, str) else csv)
        except (BundleError, DocumentError, ValueError, TypeError):
            continue


def _apis(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, str, str, str | None, str | None]]:
    """Return the distinct APIs of each bundle in a table, sorted by bundle."""
    return connection.execute(
        f"SELECT DISTINCT group_name, version, kind, {_BUNDLE} FROM {table} WHERE group_name IS NOT NULL "  # noqa: S608 - constant names
        "AND version IS NOT NULL AND kind IS NOT NULL AND operatorbundle_name IS NOT NULL ORDER BY 4, 5, 6, 1, 2, 3"
    ).fetchall()
