"""The places of bundles in file-based catalogs, as the parts of messages that differ from channel to channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.index.api import message_class

if TYPE_CHECKING:
    from opmkit.index.catalog.blobs import EntryBlob

_BUNDLE = message_class("Bundle")


def place(package: str, channel: str, entry: EntryBlob, *, edges: bool) -> bytes:
    """The part that tells where a bundle is, and with ``edges`` what it replaces and skips there."""
    fields: dict[str, Any] = {"packageName": package, "channelName": channel, "skipRange": entry.skip_range}
    if edges:
        fields |= {"replaces": entry.replaces, "skips": entry.skips}
    message: bytes = _BUNDLE(**fields).SerializeToString()
    return message
