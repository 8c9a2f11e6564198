"""Queries and updates for ``deprecatetruncate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.sqlite.bundles import insert_properties

if TYPE_CHECKING:
    from opmkit.index.sqlite.database import IndexDatabase


class Edge(NamedTuple):
    """A channel entry of a bundle, with the bundle that it replaces or skips, if any."""

    channel: str
    bundle: str
    replaces: str | None


def images_in_channels(database: IndexDatabase) -> dict[str, str]:
    """Map the images of bundles that have a channel entry to the names of the bundles."""
    rows = database.connection.execute(
        "SELECT bundlepath, name FROM operatorbundle WHERE bundlepath IS NOT NULL AND version IS NOT NULL "
        "AND name IN (SELECT operatorbundle_name FROM channel_entry)"
    )
    return dict(rows.fetchall())


def default_heads_around(database: IndexDatabase, bundle: str) -> set[str]:
    """Return the heads of the default channels of a bundle's packages."""
    rows = database.connection.execute(
        "SELECT head_operatorbundle_name FROM package "
        "JOIN channel ON channel.package_name = package.name AND channel.name = default_channel WHERE package.name IN "
        "(SELECT package_name FROM channel_entry WHERE operatorbundle_name = ?) AND head_operatorbundle_name <> ''",
        (bundle,),
    )
    return {head for (head,) in rows}


def edges_around(database: IndexDatabase, bundle: str) -> list[Edge]:
    """Return the entries of a bundle's packages, in storage order."""
    rows = database.connection.execute(
        "SELECT entry.channel_name, entry.operatorbundle_name, replaced.operatorbundle_name "
        "FROM channel_entry AS entry LEFT JOIN channel_entry AS replaced ON replaced.entry_id = entry.replaces "
        "WHERE entry.package_name IN "
        "(SELECT package_name FROM channel_entry WHERE operatorbundle_name = ?) ORDER BY entry.entry_id",
        (bundle,),
    )
    return list(map(Edge._make, rows))


def remove_from_shared_channels(database: IndexDatabase, bundle: str, other: str) -> None:
    """Remove a bundle from every channel that ``other`` is in, compared by the names of channels only."""
    shared = (
        "FROM channel_entry WHERE operatorbundle_name = ? "
        "AND channel_name IN (SELECT channel_name FROM channel_entry WHERE operatorbundle_name = ?)"
    )
    execute = database.connection.execute
    execute(f"UPDATE channel_entry SET replaces = NULL WHERE replaces IN (SELECT entry_id {shared})", (bundle, other))  # noqa: S608 - constant names
    execute(f"DELETE {shared}", (bundle, other))


def mark_deprecated(database: IndexDatabase, bundle: str) -> None:
    """Deprecate a bundle: clear its edges, delete the channels that it heads, and record the deprecation."""
    execute = database.connection.execute
    execute("UPDATE channel_entry SET replaces = NULL WHERE operatorbundle_name = ?", (bundle,))
    execute("DELETE FROM channel WHERE head_operatorbundle_name = ?", (bundle,))
    insert_properties(database, bundle, [("olm.deprecated", "{}")])
    execute("INSERT OR IGNORE INTO deprecated (operatorbundle_name) VALUES (?)", (bundle,))
