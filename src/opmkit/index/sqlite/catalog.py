"""The content of the database as a catalog sees it: packages, channels, their entries and the bundles in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opmkit.index.sqlite.files import IndexDatabase


class ChannelRow(NamedTuple):
    """A channel of a package, with the package's default channel."""

    package: str
    default_channel: str
    channel: str


class EntryRow(NamedTuple):
    """An entry of a channel, in the order they are stored. ``replaces`` and ``depth`` as in the table."""

    entry_id: int
    package: str
    channel: str
    bundle: str
    replaces: int | None
    depth: int


class BundleRow(NamedTuple):
    """A bundle that some channel has an entry for."""

    name: str
    image: str
    skip_range: str
    has_manifests: bool
    version: str


class PropertyRow(NamedTuple):
    """A property or dependency of a bundle; ``value`` is JSON text."""

    bundle: str
    type: str
    value: str


def channel_rows(database: IndexDatabase) -> list[ChannelRow]:
    """Every channel of every package."""
    rows = database.connection.execute(
        "SELECT package.name, coalesce(default_channel, ''), channel.name FROM package "
        "JOIN channel ON channel.package_name = package.name ORDER BY 1, 3"
    )
    return list(map(ChannelRow._make, rows))


def entry_rows(database: IndexDatabase) -> list[EntryRow]:
    """Every entry of every channel."""
    rows = database.connection.execute(
        "SELECT entry_id, package_name, channel_name, operatorbundle_name, replaces, depth FROM channel_entry "
        "ORDER BY entry_id"
    )
    return list(map(EntryRow._make, rows))


def bundle_rows(database: IndexDatabase) -> list[BundleRow]:
    """Every bundle with an entry, an image (which may be empty) and a version (likewise)."""
    rows = database.connection.execute(
        "SELECT name, bundlepath, coalesce(skiprange, ''), coalesce(length(bundle), 0) > 0, version "
        "FROM operatorbundle WHERE bundlepath IS NOT NULL AND version IS NOT NULL "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry) ORDER BY name"
    )
    return list(map(BundleRow._make, rows))


def property_rows(database: IndexDatabase) -> list[PropertyRow]:
    """The properties of all bundles, each once."""
    rows = database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, type, CAST(value AS TEXT) FROM properties WHERE value IS NOT NULL "
        "ORDER BY 1, 2, 3"
    )
    return list(map(PropertyRow._make, rows))


def dependency_rows(database: IndexDatabase) -> list[PropertyRow]:
    """The dependencies of all bundles, each once."""
    rows = database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, type, CAST(value AS TEXT) FROM dependencies WHERE value IS NOT NULL "
        "ORDER BY 1, 2, 3"
    )
    return list(map(PropertyRow._make, rows))


def related_image_rows(database: IndexDatabase) -> list[tuple[str, str]]:
    """The names of bundles, each with an image that it is known to use, each pair once."""
    return database.connection.execute(
        "SELECT DISTINCT operatorbundle_name, image FROM related_image "
        "WHERE operatorbundle_name IS NOT NULL AND image IS NOT NULL ORDER BY 1, 2"
    ).fetchall()


def bundle_manifests(database: IndexDatabase, bundle: str) -> bytes:
    """The manifests of a bundle as JSON documents; empty where the database does not keep them."""
    row = database.connection.execute(
        "SELECT CAST(coalesce(bundle, '') AS BLOB) FROM operatorbundle WHERE name = ?", (bundle,)
    ).fetchone()
    return row[0] if row else b""


def cluster_service_version(database: IndexDatabase, bundle: str) -> bytes:
    """The ClusterServiceVersion of a bundle as JSON; empty where the database does not keep it."""
    row = database.connection.execute(
        "SELECT CAST(coalesce(csv, '') AS BLOB) FROM operatorbundle WHERE name = ?", (bundle,)
    ).fetchone()
    return row[0] if row else b""
