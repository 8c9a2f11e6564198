"""Removing and deprecating packages and bundles in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.sqlite.bundles import insert_properties

if TYPE_CHECKING:
    from opmkit.index.sqlite.database import IndexDatabase


# A property that is not an object names no package; an object without packageName names the package "".
_ORPHANS = """
WITH package_property (name, value) AS (
    SELECT operatorbundle_name, CAST(value AS TEXT) FROM properties WHERE type = 'olm.package'
)
SELECT DISTINCT name FROM package_property WHERE json_valid(value) AND json_type(value) = 'object'
AND coalesce(json_extract(value, '$.packageName'), '') NOT IN (SELECT name FROM package)"""


def package_names(database: IndexDatabase) -> list[str]:
    """Return the names of all packages, sorted."""
    rows = database.connection.execute("SELECT name FROM package ORDER BY name")
    return [name for (name,) in rows]


def remove_package(database: IndexDatabase, package: str) -> bool:
    """Remove a package, the bundles that have an entry in it, and their deprecations; return whether it existed.

    The stranded bundles of all packages are removed too. Bundles are deleted in the order of their entries, since the
    order determines which APIs the triggers retain.
    """
    execute = database.connection.execute
    bundles = execute(
        "SELECT operatorbundle_name FROM channel_entry WHERE package_name = ? GROUP BY 1 ORDER BY min(entry_id)",
        (package,),
    ).fetchall()
    exists = bundles or execute("SELECT 1 FROM package WHERE name = ?", (package,)).fetchone()
    for (bundle,) in bundles:
        execute("DELETE FROM deprecated WHERE operatorbundle_name = ?", (bundle,))
        remove_bundle(database, bundle)
    execute("DELETE FROM package WHERE name = ?", (package,))
    execute("DELETE FROM channel WHERE package_name = ?", (package,))
    if exists:
        remove_stranded_bundles(database)
    return bool(exists)


def remove_bundle(database: IndexDatabase, name: str) -> None:
    """Remove a bundle with its channel entries and APIs, including those that foreign keys do not link to it."""
    execute = database.connection.execute
    execute("DELETE FROM operatorbundle WHERE name = ?", (name,))
    for table in ("api_provider", "api_requirer", "channel_entry"):
        execute(f"DELETE FROM {table} WHERE operatorbundle_name = ?", (name,))  # noqa: S608 - constant names


def remove_stranded_bundles(database: IndexDatabase) -> None:
    """Remove the bundles without a channel entry that are not deprecated, and the bundles of unknown packages."""
    database.connection.execute(
        "DELETE FROM operatorbundle WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry) "
        "AND name NOT IN (SELECT operatorbundle_name FROM deprecated)"
    )
    remove_orphans(database)


def remove_orphans(database: IndexDatabase) -> None:
    """Remove bundles whose ``olm.package`` property names an unknown package, and deprecations of missing bundles."""
    for (bundle,) in database.connection.execute(_ORPHANS).fetchall():
        remove_bundle(database, bundle)
    database.connection.execute(
        "DELETE FROM deprecated "
        "WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)"
    )


class Edge(NamedTuple):
    """A channel entry of a bundle, with the bundle that it replaces or skips, if any."""

    channel: str
    bundle: str
    replaces: str | None


def images_in_channels(database: IndexDatabase) -> dict[str, str]:
    """Map the images of bundles that have a channel entry to the names of the bundles."""
    rows = database.connection.execute(
        "SELECT bundlepath, name FROM operatorbundle WHERE bundlepath IS NOT NULL AND version IS NOT NULL "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry)"
    )
    return dict(rows.fetchall())


def default_heads_around(database: IndexDatabase, bundle: str) -> set[str]:
    """Return the heads of the default channels of a bundle's packages."""
    rows = database.connection.execute(
        "SELECT head_operatorbundle_name FROM package "
        "JOIN channel ON channel.package_name = package.name AND channel.name = default_channel WHERE package.name IN "
        "(SELECT package_name FROM channel_entry WHERE operatorbundle_name = ?) AND head_operatorbundle_name <> ''",
        (bundle,),
    )
    return {head for (head,) in rows}


def edges_around(database: IndexDatabase, bundle: str) -> list[Edge]:
    """Return the entries of a bundle's packages, in storage order."""
    rows = database.connection.execute(
        "SELECT entry.channel_name, entry.operatorbundle_name, replaced.operatorbundle_name "
        "FROM channel_entry AS entry LEFT JOIN channel_entry AS replaced ON replaced.entry_id = entry.replaces "
        "WHERE entry.package_name IN "
        "(SELECT package_name FROM channel_entry WHERE operatorbundle_name = ?) ORDER BY entry.entry_id",
        (bundle,),
    )
    return list(map(Edge._make, rows))


def remove_from_shared_channels(database: IndexDatabase, bundle: str, other: str) -> None:
    """Remove a bundle from every channel that ``other`` is in, compared by the names of channels only."""
    shared = (
        "FROM channel_entry WHERE operatorbundle_name = ? "
        "AND channel_name IN (SELECT channel_name FROM channel_entry WHERE operatorbundle_name = ?)"
    )
    execute = database.connection.execute
    execute(f"UPDATE channel_entry SET replaces = NULL WHERE replaces IN (SELECT entry_id {shared})", (bundle, other))  # noqa: S608 - constant names
    execute(f"DELETE {shared}", (bundle, other))


def mark_deprecated(database: IndexDatabase, bundle: str) -> None:
    """Deprecate a bundle: clear its edges, delete the channels that it heads, and record the deprecation."""
    execute = database.connection.execute
    execute("UPDATE channel_entry SET replaces = NULL WHERE operatorbundle_name = ?", (bundle,))
    execute("DELETE FROM channel WHERE head_operatorbundle_name = ?", (bundle,))
    insert_properties(database, bundle, [("olm.deprecated", "{}")])
    execute("INSERT OR IGNORE INTO deprecated (operatorbundle_name) VALUES (?)", (bundle,))
