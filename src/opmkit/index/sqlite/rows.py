"""Reading packages, channels, entries and bundles as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opmkit.index.sqlite.database import IndexDatabase


class ChannelRow(NamedTuple):
    """A channel and the default channel of its package."""

    package: str
    default_channel: str
    channel: str


class EntryRow(NamedTuple):
    """A row of ``channel_entry``."""

    entry_id: int
    package: str
    channel: str
    bundle: str
    replaces: int | None
    depth: int


class BundleRow(NamedTuple):
    """A bundle in a channel."""

    name: str
    image: str
    skip_range: str
    has_manifests: bool
    version: str


class PropertyRow(NamedTuple):
    """A property or dependency of a bundle, with its value as JSON text."""

    bundle: str
    type: str
    value: str


def channel_rows(database: IndexDatabase) -> list[ChannelRow]:
    """Return all channels, ordered by package and name."""
    rows = database.connection.execute(
        "SELECT package.name, coalesce(default_channel, ''), channel.name FROM package "
        "JOIN channel ON channel.package_name = package.name ORDER BY 1, 3"
    )
    return list(map(ChannelRow._make, rows))


def entry_rows(database: IndexDatabase) -> list[EntryRow]:
    """Return all channel entries, in storage order."""
    rows = database.connection.execute(
        "SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, coalesce(depth, 0) "
        "FROM channel_entry ORDER BY entry_id"
    )
    return list(map(EntryRow._make, rows))


def bundle_rows(database: IndexDatabase) -> list[BundleRow]:
    """Return all bundles with a channel entry whose image and version are not NULL, ordered by name."""
    rows = database.connection.execute(
        "SELECT name, bundlepath, coalesce(skiprange, ''), coalesce(length(bundle), 0) > 0, version "
        "FROM operatorbundle WHERE bundlepath IS NOT NULL AND version IS NOT NULL "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry) ORDER BY name"
    )
    return list(map(BundleRow._make, rows))


def property_rows(database: IndexDatabase) -> list[PropertyRow]:
    """Return the distinct properties of all bundles."""
    rows = database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, type, CAST(value AS TEXT) FROM properties WHERE value IS NOT NULL "
        "ORDER BY 1, 2, 3"
    )
    return list(map(PropertyRow._make, rows))


def dependency_rows(database: IndexDatabase) -> list[PropertyRow]:
    """Return the distinct dependencies of all bundles."""
    rows = database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, type, CAST(value AS TEXT) FROM dependencies WHERE value IS NOT NULL "
        "ORDER BY 1, 2, 3"
    )
    return list(map(PropertyRow._make, rows))


def related_image_rows(database: IndexDatabase) -> list[tuple[str, str]]:
    """Return the distinct (bundle, related image) pairs."""
    return database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, image FROM related_image "
        "WHERE operatorbundle_name IS NOT NULL AND image IS NOT NULL ORDER BY 1, 2"
    ).fetchall()


def bundle_manifests(database: IndexDatabase, bundle: str) -> bytes:
    """Return the manifests of a bundle as JSON documents, empty if they are not stored."""
    row = database.connection.execute(
        "SELECT CAST(coalesce(bundle, '') AS BLOB) FROM operatorbundle WHERE name = ?", (bundle,)
    ).fetchone()
    return row[0] if row else b""


def cluster_service_version(database: IndexDatabase, bundle: str) -> bytes:
    """Return the ClusterServiceVersion of a bundle as JSON, empty if it is not stored."""
    row = database.connection.execute(
        "SELECT CAST(coalesce(csv, '') AS BLOB) FROM operatorbundle WHERE name = ?", (bundle,)
    ).fetchone()
    return row[0] if row else b""
