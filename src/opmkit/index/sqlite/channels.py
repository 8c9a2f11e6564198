"""Reading the heads and bundles of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opmkit.index.sqlite.database import IndexDatabase


class ChannelHead(NamedTuple):
    """The name and image of the head of a channel."""

    channel: str
    bundle: str
    image: str


class ChannelBundle(NamedTuple):
    """A bundle in a channel. An absent version or image is ""."""

    name: str
    version: str
    image: str


def channel_bundles(database: IndexDatabase, package: str) -> list[ChannelBundle]:
    """Return the bundles in the channels of a package, ordered by name."""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), coalesce(bundlepath, '') FROM operatorbundle WHERE name IN "
        "(SELECT operatorbundle_name FROM channel_entry WHERE package_name = ?) ORDER BY name",
        (package,),
    )
    return list(map(ChannelBundle._make, rows))


def channel_heads(database: IndexDatabase, package: str) -> list[ChannelHead]:
    """Return the heads of the channels of a package, ordered by channel."""
    rows = database.connection.execute(
        "SELECT channel.name, coalesce(head_operatorbundle_name, ''), coalesce(bundlepath, '') FROM channel "
        "LEFT JOIN operatorbundle ON operatorbundle.name = head_operatorbundle_name "
        "WHERE package_name = ? ORDER BY channel.name",
        (package,),
    )
    return list(map(ChannelHead._make, rows))


def default_heads(database: IndexDatabase) -> dict[str, str]:
    """Map the head of each default channel to its package."""
    rows = database.connection.execute(
        "SELECT head_operatorbundle_name, package.name FROM package "
        "JOIN channel ON channel.package_name = package.name AND channel.name = default_channel"
    )
    return dict(rows.fetchall())
