"""Catalogs as values: packages with channels of entries, and bundles, as file-based catalogs have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.fbc.check.graph import channel_heads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.index.fbc.blobs import BundleBlob, EntryBlob


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel with its entries by name."""

    name: str
    entries: Mapping[str, EntryBlob]

    @property
    def heads(self) -> tuple[str, ...]:
        """The names that nothing in the channel replaces or skips, sorted; a valid channel has one."""
        return channel_heads(self.entries.values())


@dataclass(frozen=True, slots=True)
class Package:
    """A package with its channels and bundles by name. The display name is that of the default channel's head."""

    name: str
    default_channel: str
    channels: Mapping[str, Channel]
    bundles: Mapping[str, BundleBlob]
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All packages by name."""

    packages: Mapping[str, Package] = field(default_factory=dict)
