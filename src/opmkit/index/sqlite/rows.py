"""Reading packages, channels, entries and bundles as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class ChannelSummary(NamedTuple):
    """A channel with its head and the default channel of its package."""

    package: str
    default_channel: str
    channel: str
    head: str


class ChannelEdge(NamedTuple):
    """A bundle in a channel, and a bundle that it replaces or skips there, or "" if there is none."""

    package: str
    channel: str
    bundle: str
    target: str


class BundleSummary(NamedTuple):
    """A bundle of the table ``operatorbundle``."""

    name: str
    version: str
    image: str
    deprecated: bool


def channel_summaries(database: IndexDatabase) -> Iterator[ChannelSummary]:
    """Yield all channels, and a row with an empty channel for each package without channels."""
    rows = database.connection.execute(
        "SELECT package.name, coalesce(default_channel, ''), coalesce(channel.name, ''), "
        "coalesce(head_operatorbundle_name, '') FROM package "
        "LEFT JOIN channel ON channel.package_name = package.name ORDER BY 1, 3"
    )
    yield from map(ChannelSummary._make, rows)


def channel_edges(database: IndexDatabase) -> Iterator[ChannelEdge]:
    """Yield the distinct edges of all channels, and the bundles without edges."""
    rows = database.connection.execute(
        "SELECT DISTINCT entry.package_name, entry.channel_name, entry.operatorbundle_name, "
        "coalesce(target.operatorbundle_name, '') FROM channel_entry AS entry "
        "LEFT JOIN channel_entry AS target ON target.entry_id = entry.replaces ORDER BY 1, 2, 3, 4"
    )
    yield from map(ChannelEdge._make, rows)


def skip_ranges(database: IndexDatabase) -> Iterator[tuple[str, str]]:
    """Yield the names of the bundles that have a skip range, with the range."""
    yield from database.connection.execute("SELECT name, skiprange FROM operatorbundle WHERE skiprange <> ''")


def bundle_summaries(database: IndexDatabase) -> Iterator[BundleSummary]:
    """Yield all bundles, including those in no channel."""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), coalesce(bundlepath, ''), "
        "name IN (SELECT operatorbundle_name FROM deprecated) FROM operatorbundle ORDER BY name"
    )
    yield from (BundleSummary(name, version, image, bool(deprecated)) for name, version, image, deprecated in rows)


def channel_bundle_image(database: IndexDatabase, bundle: str) -> str:
    """Return the image of a bundle that is in a channel, or "" if there is no such bundle or image."""
    row = database.connection.execute(
        "SELECT coalesce(bundlepath, '') FROM operatorbundle WHERE name = ? "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry)",
        (bundle,),
    ).fetchone()
    return row[0] if row else ""
