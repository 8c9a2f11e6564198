"""Writing bundles to the database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Self

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.sqlite.database import IndexDatabase


_INSERT_BUNDLE = """
INSERT INTO operatorbundle (name, csv, bundle, bundlepath, version, skiprange, replaces, skips, substitutesfor)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# With BETWEEN instead of =, SQLite reads the covering index "pk" alone, not the row behind its large manifests.
_SELECT_KEY = """
SELECT name, nullif(version, ''), nullif(bundlepath, '') FROM operatorbundle WHERE name BETWEEN ?1 AND ?1"""


class BundleKey(NamedTuple):
    """The key by which other tables refer to a bundle, with NULL for empty texts."""

    name: str
    version: str | None
    image: str | None

    @classmethod
    def from_texts(cls, name: str, version: str, image: str) -> Self:
        """Return the key of a bundle with a version and an image, each of which may be ""."""
        return cls(name, version or None, image or None)


def bundle_image(database: IndexDatabase, name: str) -> str | None:
    """Return the image of a bundle, or "" if it has none; None if the bundle does not exist."""
    row = database.connection.execute(_SELECT_KEY, (name,)).fetchone()
    return None if row is None else BundleKey._make(row).image or ""


def insert_bundle(database: IndexDatabase, bundle: Bundle) -> None:
    """Insert a bundle with its images, dependencies and properties, but without its APIs (see `insert_apis`).

    A bundle whose name is deprecated gets the property ``olm.deprecated``.

    Raises:
        sqlite3.IntegrityError: A bundle of that name exists.
    """
    connection, csv = database.connection, bundle.csv
    manifests = b"".join(manifest + b"\n" for manifest in bundle.objects)
    texts = (csv.version, csv.skip_range, csv.replaces, ",".join(csv.skips), csv.substitutes_for)
    connection.execute(_INSERT_BUNDLE, (csv.name, csv.json + b"\n", manifests, bundle.image, *texts))
    connection.executemany(
        "INSERT INTO related_image (image, operatorbundle_name) VALUES (?, ?)",
        [(image, csv.name) for image in bundle.related_images],
    )
    key = BundleKey.from_texts(csv.name, csv.version, bundle.image)
    connection.executemany(
        "INSERT INTO dependencies VALUES (?, ?, ?, ?, ?)",
        [(dependency.type, dependency.value.encode() or None, *key) for dependency in bundle.dependencies],
    )
    connection.executemany(
        "INSERT INTO properties VALUES (?, ?, ?, ?, ?)", [(prop.type, prop.value, *key) for prop in bundle.properties]
    )
    connection.execute(
        "INSERT INTO properties SELECT 'olm.deprecated', '{}', name, nullif(version, ''), nullif(bundlepath, '') "
        "FROM operatorbundle JOIN deprecated ON operatorbundle_name = name WHERE name = ?",
        (csv.name,),
    )


def insert_properties(database: IndexDatabase, bundle: str, properties: Iterable[tuple[str, str]]) -> None:
    """Insert (type, JSON text) properties of an existing bundle, without removing duplicates."""
    key = database.connection.execute(_SELECT_KEY, (bundle,)).fetchone()
    if key is not None:
        database.connection.executemany(
            "INSERT INTO properties VALUES (?, ?, ?, ?, ?)", [(*prop, *key) for prop in properties]
        )


def insert_apis(
    database: IndexDatabase, bundle: BundleKey, provided: Iterable[ApiKey], required: Iterable[ApiKey]
) -> None:
    """Insert the APIs of a bundle. An API that exists retains its plural name."""
    for table, apis in (("api_provider", provided), ("api_requirer", required)):
        rows = [(api.group, api.version, api.kind, api.plural) for api in apis]
        database.connection.executemany("INSERT OR IGNORE INTO api VALUES (?, ?, ?, ?)", rows)
        database.connection.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant names
            [(group, version, kind, *bundle) for group, version, kind, _ in rows],
        )


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


_BLANKS = b" \t\r\n"


def split_manifests(documents: bytes) -> list[tuple[str, JsonValue]]:
    """Return each document as text and as a value. Indexes usually have one document per line.

    Raises:
        ValueError: The text is not JSON.
        RecursionError: The JSON is nested too deeply.
    """
    lines = [line for line in (line.strip(_BLANKS) for line in documents.split(b"\n")) if line]
    try:
        return [(_text(line), orjson.loads(line)) for line in lines]
    except orjson.JSONDecodeError:
        return list(_decode_all(_text(documents)))


def _decode_all(documents: str) -> Iterator[tuple[str, JsonValue]]:
    decode, blanks = json.JSONDecoder().raw_decode, _BLANKS.decode()
    rest = documents.strip(blanks)
    while rest:
        value, end = decode(rest)
        yield rest[:end], value
        rest = rest[end:].lstrip(blanks)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
