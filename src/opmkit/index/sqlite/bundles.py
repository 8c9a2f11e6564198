"""Writing bundles to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.sqlite.database import IndexDatabase

_INSERT_BUNDLE = """
INSERT INTO operatorbundle (name, csv, bundle, bundlepath, version, skiprange, replaces, skips, substitutesfor)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# Other tables refer to a bundle by name, version and image, with NULL for empty texts.
_SELECT_KEY = "SELECT {0}, name, nullif(version, ''), nullif(bundlepath, '') FROM operatorbundle WHERE name = ?"


def bundle_image(database: IndexDatabase, name: str) -> str | None:
    """Return the image of a bundle, "" if it has none; None if the bundle does not exist."""
    row = database.connection.execute("SELECT bundlepath FROM operatorbundle WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0] or ""


def insert_bundle(database: IndexDatabase, bundle: Bundle) -> None:
    """Insert a bundle with its images, dependencies and properties, but without its APIs (see `insert_apis`).

    A bundle whose name is deprecated gets the property ``olm.deprecated``.

    Raises:
        sqlite3.IntegrityError: a bundle of that name exists.
    """
    connection, csv = database.connection, bundle.csv
    manifests = b"".join(manifest + b"\n" for manifest in bundle.objects)
    texts = (csv.version, csv.skip_range, csv.replaces, ",".join(csv.skips), csv.substitutes_for)
    connection.execute(_INSERT_BUNDLE, (csv.name, csv.json + b"\n", manifests, bundle.image, *texts))
    connection.executemany(
        "INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)",
        [(image, csv.name) for image in bundle.related_images],
    )
    connection.executemany(
        f"INSERT INTO dependencies {_SELECT_KEY.format('?, ?')}",
        [(dependency.type, dependency.value.encode() or None, csv.name) for dependency in bundle.dependencies],
    )
    insert_properties(database, csv.name, [(prop.type, prop.value) for prop in bundle.properties])
    connection.execute(
        "INSERT INTO properties SELECT 'olm.deprecated', '{}', name, nullif(version, ''), nullif(bundlepath, '') "
        "FROM operatorbundle JOIN deprecated ON operatorbundle_name = name WHERE name = ?",
        (csv.name,),
    )


def insert_properties(database: IndexDatabase, bundle: str, properties: Iterable[tuple[str, str]]) -> None:
    """Insert (type, JSON text) properties of a bundle, without removing duplicates."""
    database.connection.executemany(
        f"INSERT INTO properties {_SELECT_KEY.format('?, ?')}", [(*prop, bundle) for prop in properties]
    )


def insert_apis(database: IndexDatabase, bundle: str, provided: Iterable[ApiKey], required: Iterable[ApiKey]) -> None:
    """Insert the APIs of a bundle. An API that exists retains its plural name."""
    connection = database.connection
    for table, apis in (("api_provider", provided), ("api_requirer", required)):
        for api in apis:
            key = (api.group, api.version, api.kind)
            connection.execute("INSERT OR IGNORE INTO api VALUES (?, ?, ?, ?)", (*key, api.plural))
            connection.execute(f"INSERT INTO {table} {_SELECT_KEY.format('?, ?, ?')}", (*key, bundle))


def delete_bundle(database: IndexDatabase, name: str) -> None:
    """Delete a bundle and the rows that refer to it by foreign keys."""
    database.connection.execute("DELETE FROM operatorbundle WHERE name = ?", (name,))


def delete_superseded_manifests(database: IndexDatabase) -> None:
    """Delete the manifests of all bundles that have an image and head no channel, in every package."""
    database.connection.execute(
        "UPDATE operatorbundle SET csv = NULL, bundle = NULL WHERE bundlepath != '' "
        "AND (csv IS NOT NULL OR bundle IS NOT NULL) AND name NOT IN "
        "(SELECT head_operatorbundle_name FROM channel WHERE head_operatorbundle_name IS NOT NULL)"
    )
