"""The values that update graphs are computed from and made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A bundle of the index with its own edges, and the name of the bundle it substitutes. Empty where it has none."""

    name: str
    version: str
    replaces: str
    skips: tuple[str, ...]
    substitutes_for: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """The names that this bundle updates from."""
        return (*self.skips, self.replaces) if self.replaces else self.skips


@dataclass(frozen=True, slots=True)
class Member:
    """A bundle as a candidate for the heads of a package's channels."""

    name: str
    version: str
    channels: tuple[str, ...]
    default_channel: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A bundle in a channel: the names that its entries there update from, bundles of the index or not."""

    name: str
    version: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a channel: ``replaces`` is the position, in the channel's entries, of the entry that it replaces."""

    name: str
    depth: int
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class ChannelGraph:
    """A channel: its head, its entries in the order they are stored, and the bundles on its replaces chain."""

    name: str
    head: str
    entries: tuple[Entry, ...]
    chain: tuple[Node, ...]

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """Every (bundle, bundle that it updates from) of the channel, through replaces and skips alike."""
        return frozenset(
            (entry.name, self.entries[entry.replaces].name) for entry in self.entries if entry.replaces is not None
        )


@dataclass(frozen=True, slots=True)
class PackageGraph:
    """A package with the channels that it will have."""

    name: str
    default_channel: str
    channels: tuple[ChannelGraph, ...]
