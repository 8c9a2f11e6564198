"""Bundles in the database (index semantics, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.sqlite.files import IndexDatabase

_INSERT_BUNDLE = """
INSERT INTO operatorbundle (name, csv, bundle, bundlepath, version, skiprange, replaces, skips, substitutesfor)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# A bundle's tables refer to it by name, version and image, with NULL for a text that is empty.
_KEY_OF_BUNDLE = "SELECT {0}, name, nullif(version, ''), nullif(bundlepath, '') FROM operatorbundle WHERE name = ?"


def bundle_image(database: IndexDatabase, name: str) -> str | None:
    """The image that a stored bundle came from, "" if from none; None where no bundle has this name."""
    row = database.connection.execute("SELECT bundlepath FROM operatorbundle WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0] or ""


def insert_bundle(database: IndexDatabase, bundle: Bundle) -> None:
    """Store a bundle, its images, dependencies and properties; its APIs are left to `insert_apis`.

    A bundle that is deprecated by name keeps being so.

    Raises:
        sqlite3.IntegrityError: the name is taken.
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
        f"INSERT INTO dependencies {_KEY_OF_BUNDLE.format('?, ?')}",
        [(known.type, known.value.encode() or None, csv.name) for known in bundle.dependencies],
    )
    insert_properties(database, csv.name, [(known.type, known.value) for known in bundle.properties])
    connection.execute(
        "INSERT INTO properties SELECT 'olm.deprecated', '{}', name, nullif(version, ''), nullif(bundlepath, '') "
        "FROM operatorbundle JOIN deprecated ON operatorbundle_name = name WHERE name = ?",
        (csv.name,),
    )


def insert_properties(database: IndexDatabase, bundle: str, properties: Iterable[tuple[str, str]]) -> None:
    """Give a stored bundle more (type, JSON text) properties, whether it has them already or not."""
    database.connection.executemany(
        f"INSERT INTO properties {_KEY_OF_BUNDLE.format('?, ?')}", [(*known, bundle) for known in properties]
    )


def insert_apis(database: IndexDatabase, bundle: str, provided: Iterable[ApiKey], required: Iterable[ApiKey]) -> None:
    """Store the APIs of a stored bundle. The plural name that an API was stored with first stays."""
    connection = database.connection
    for table, apis in (("api_provider", provided), ("api_requirer", required)):
        for api in apis:
            key = (api.group, api.version, api.kind)
            connection.execute("INSERT OR IGNORE INTO api VALUES (?, ?, ?, ?)", (*key, api.plural))
            connection.execute(f"INSERT INTO {table} {_KEY_OF_BUNDLE.format('?, ?, ?')}", (*key, bundle))


def delete_bundle(database: IndexDatabase, name: str) -> None:
    """Remove a bundle and all that refers to it."""
    database.connection.execute("DELETE FROM operatorbundle WHERE name = ?", (name,))


def drop_old_manifests(database: IndexDatabase) -> None:
    """Keep the manifests of bundles that came from images only where they head a channel, in all packages."""
    database.connection.execute(
        "UPDATE operatorbundle SET csv = NULL, bundle = NULL WHERE bundlepath != '' "
        "AND (csv IS NOT NULL OR bundle IS NOT NULL) AND name NOT IN "
        "(SELECT head_operatorbundle_name FROM channel WHERE head_operatorbundle_name IS NOT NULL)"
    )
