"""Catalogs as values: packages with channels of entries, and bundles, as file-based catalogs have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Property:
    """A typed fact about a bundle; ``value`` is JSON text."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A bundle's place in a channel: what it updates from. ``replaces`` and ``skip_range`` are empty where not set."""

    name: str
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel with its entries by name."""

    name: str
    entries: Mapping[str, ChannelEntry]

    @property
    def heads(self) -> tuple[str, ...]:
        """The names that nothing in the channel replaces or skips, sorted; a valid channel has one."""
        entries = self.entries.values()
        skipped = {name for entry in entries for name in entry.skips}
        return tuple(sorted(self.entries.keys() - skipped - {entry.replaces for entry in entries if entry.replaces}))


@dataclass(frozen=True, slots=True)
class CatalogBundle:
    """A bundle of a package. ``has_manifests`` tells whether the catalog holds its objects beside its image."""

    name: str
    image: str
    skip_range: str = ""
    properties: tuple[Property, ...] = ()
    has_manifests: bool = False


@dataclass(frozen=True, slots=True)
class Package:
    """A package with its channels and bundles by name. The display name is that of the default channel's head."""

    name: str
    default_channel: str
    channels: Mapping[str, Channel]
    bundles: Mapping[str, CatalogBundle]
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All packages by name."""

    packages: Mapping[str, Package] = field(default_factory=dict)
