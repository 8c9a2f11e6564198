"""Taking packages and bundles out of the database (index semantics, section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmkit.index.sqlite.files import IndexDatabase

# A property that is no mapping names no package; a mapping without packageName names the package "".
_HOMELESS = """
WITH homes (name, value) AS (
    SELECT operatorbundle_name, CAST(value AS TEXT) FROM properties WHERE type = 'olm.package'
)
SELECT DISTINCT name FROM homes WHERE json_valid(value) AND json_type(value) = 'object'
AND coalesce(json_extract(value, '$.packageName'), '') NOT IN (SELECT name FROM package)"""


def package_names(database: IndexDatabase) -> list[str]:
    """The packages of the index, in order."""
    rows = database.connection.execute("SELECT name FROM package ORDER BY name")
    return [name for (name,) in rows]


def remove_package(database: IndexDatabase, package: str) -> bool:
    """Remove a package with every bundle that a channel of it has an entry for; whether there was such a package.

    The bundles go in the order of their entries, and the stranded bundles of all packages with them: on the order of
    deletions depends which APIs the triggers let stay. What was deprecated of the package can be added again.
    """
    execute = database.connection.execute
    bundles = execute(
        "SELECT operatorbundle_name FROM channel_entry WHERE package_name = ? GROUP BY 1 ORDER BY min(entry_id)",
        (package,),
    ).fetchall()
    known = bundles or execute("SELECT 1 FROM package WHERE name = ?", (package,)).fetchone()
    for (bundle,) in bundles:
        execute("DELETE FROM deprecated WHERE operatorbundle_name = ?", (bundle,))
        remove_bundle(database, bundle)
    execute("DELETE FROM package WHERE name = ?", (package,))
    execute("DELETE FROM channel WHERE package_name = ?", (package,))
    if known:
        remove_stranded_bundles(database)
    return bool(known)


def remove_bundle(database: IndexDatabase, name: str) -> None:
    """Remove a bundle with its entries, and its APIs even where no image or version ties them to it."""
    execute = database.connection.execute
    execute("DELETE FROM operatorbundle WHERE name = ?", (name,))
    for table in ("api_provider", "api_requirer", "channel_entry"):
        execute(f"DELETE FROM {table} WHERE operatorbundle_name = ?", (name,))  # noqa: S608 - constant names


def remove_stranded_bundles(database: IndexDatabase) -> None:
    """Remove the bundles that no channel has an entry for, unless they are deprecated, and those without a package."""
    database.connection.execute(
        "DELETE FROM operatorbundle WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry) "
        "AND name NOT IN (SELECT operatorbundle_name FROM deprecated)"
    )
    remove_homeless_bundles(database)


def remove_homeless_bundles(database: IndexDatabase) -> None:
    """Remove the bundles whose properties name a package that is not there, and deprecations of missing bundles."""
    for (bundle,) in database.connection.execute(_HOMELESS).fetchall():
        remove_bundle(database, bundle)
    database.connection.execute(
        "DELETE FROM deprecated "
        "WHERE operatorbundle_name NOT IN (SELECT name FROM operatorbundle WHERE name IS NOT NULL)"
    )
