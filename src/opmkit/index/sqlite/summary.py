"""Reading a summary of packages, channels and bundles, without manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.sqlite.database import IndexDatabase


class ChannelSummary(NamedTuple):
    """A channel with its head and the default channel of its package."""

    package: str
    default_channel: str
    channel: str
    head: str


class ChannelEdge(NamedTuple):
    """A bundle in a channel, and a bundle that it replaces or skips there, "" for none."""

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
    """Return the image of a bundle that is in a channel, "" if there is no such bundle or image."""
    row = database.connection.execute(
        "SELECT coalesce(bundlepath, '') FROM operatorbundle WHERE name = ? "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry)",
        (bundle,),
    ).fetchone()
    return row[0] if row else ""
