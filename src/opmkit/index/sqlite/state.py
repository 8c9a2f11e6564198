"""What an index database says of packages, channels and bundles, without their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.sqlite.files import IndexDatabase


class ChannelHead(NamedTuple):
    """A channel of a package, and its head."""

    package: str
    default_channel: str
    channel: str
    head: str


class Edge(NamedTuple):
    """A bundle in a channel, and a bundle that it replaces or skips there ("" for none)."""

    package: str
    channel: str
    bundle: str
    before: str


class StoredBundle(NamedTuple):
    """A bundle of which the index has more than the name."""

    name: str
    version: str
    image: str
    deprecated: bool


def channel_heads(database: IndexDatabase) -> Iterator[ChannelHead]:
    """Every package with each of its channels; a package without channels once, with none."""
    rows = database.connection.execute(
        "SELECT package.name, coalesce(default_channel, ''), coalesce(channel.name, ''), "
        "coalesce(head_operatorbundle_name, '') FROM package "
        "LEFT JOIN channel ON channel.package_name = package.name ORDER BY 1, 3"
    )
    yield from map(ChannelHead._make, rows)


def channel_edges(database: IndexDatabase) -> Iterator[Edge]:
    """Every edge of every channel once, and every bundle of a channel."""
    rows = database.connection.execute(
        "SELECT DISTINCT entry.package_name, entry.channel_name, entry.operatorbundle_name, "
        "coalesce(target.operatorbundle_name, '') FROM channel_entry AS entry "
        "LEFT JOIN channel_entry AS target ON target.entry_id = entry.replaces ORDER BY 1, 2, 3, 4"
    )
    yield from map(Edge._make, rows)


def stored_bundles(database: IndexDatabase) -> Iterator[StoredBundle]:
    """Every bundle with a row of its own, in a channel or not."""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), coalesce(bundlepath, ''), "
        "name IN (SELECT operatorbundle_name FROM deprecated) FROM operatorbundle ORDER BY name"
    )
    yield from (StoredBundle(name, version, image, bool(deprecated)) for name, version, image, deprecated in rows)


def image_of(database: IndexDatabase, bundle: str) -> str:
    """The image of the bundle of that name in some channel; "" where there is none."""
    row = database.connection.execute(
        "SELECT coalesce(bundlepath, '') FROM operatorbundle WHERE name = ? "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry)",
        (bundle,),
    ).fetchone()
    return row[0] if row else ""
