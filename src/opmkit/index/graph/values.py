"""Inputs and results of update graph computations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A bundle with its declared edges and the name of the bundle that it substitutes; "" for none."""

    name: str
    version: str
    replaces: str
    skips: tuple[str, ...]
    substitutes_for: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """The names that this bundle replaces or skips."""
        return (*self.skips, self.replaces) if self.replaces else self.skips


@dataclass(frozen=True, slots=True)
class Member:
    """A bundle with the channels that it is in, a candidate for their heads."""

    name: str
    version: str
    channels: tuple[str, ...]
    default_channel: str


@dataclass(frozen=True, slots=True)
class ChannelNode:
    """A bundle in a channel, with the names that it replaces or skips there, which may not be in the index."""

    name: str
    version: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of ``channel_entry``; ``replaces`` is the position of another entry of the channel."""

    name: str
    depth: int
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class ChannelGraph:
    """A channel with its head, its entries in storage order, and the bundles on its replaces chain."""

    name: str
    head: str
    entries: tuple[Entry, ...]
    chain: tuple[Node, ...]

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """The (bundle, target) pairs of all replaces and skips."""
        return frozenset(
            (entry.name, self.entries[entry.replaces].name) for entry in self.entries if entry.replaces is not None
        )


@dataclass(frozen=True, slots=True)
class PackageGraph:
    """A package with its default channel and channels."""

    name: str
    default_channel: str
    channels: tuple[ChannelGraph, ...]
