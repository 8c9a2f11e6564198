"""Channels as those see them who take away or take out: their heads, and the bundles in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opmkit.index.sqlite.files import IndexDatabase


class ChannelHead(NamedTuple):
    """The head of a channel by its name and its image."""

    channel: str
    bundle: str
    image: str


class ChannelBundle(NamedTuple):
    """A bundle that a channel has an entry for. Image and version are "" where the index has none."""

    name: str
    version: str
    image: str


def channel_bundles(database: IndexDatabase, package: str) -> list[ChannelBundle]:
    """The bundles of the index in the channels of a package, by name."""
    rows = database.connection.execute(
        "SELECT name, coalesce(version, ''), coalesce(bundlepath, '') FROM operatorbundle WHERE name IN "
        "(SELECT operatorbundle_name FROM channel_entry WHERE package_name = ?) ORDER BY name",
        (package,),
    )
    return list(map(ChannelBundle._make, rows))


def channel_heads(database: IndexDatabase, package: str) -> list[ChannelHead]:
    """The heads of the channels of a package, by channel."""
    rows = database.connection.execute(
        "SELECT channel.name, coalesce(head_operatorbundle_name, ''), coalesce(bundlepath, '') FROM channel "
        "LEFT JOIN operatorbundle ON operatorbundle.name = head_operatorbundle_name "
        "WHERE package_name = ? ORDER BY channel.name",
        (package,),
    )
    return list(map(ChannelHead._make, rows))


def default_heads(database: IndexDatabase) -> dict[str, str]:
    """The packages by the bundle that heads their default channel."""
    rows = database.connection.execute(
        "SELECT head_operatorbundle_name, package.name FROM package "
        "JOIN channel ON channel.package_name = package.name AND channel.name = default_channel"
    )
    return dict(rows.fetchall())
