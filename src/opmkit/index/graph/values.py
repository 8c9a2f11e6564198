"""Inputs and results of update graph computations, and the order of versions."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from opmkit.bundle.versions import Identifiers, identifiers_key, strict_version, version_key
from opmkit.index.errors import GraphError


class Node(Struct, frozen=True):
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


class Member(Struct, frozen=True):
    """A bundle with the channels that it is in, a candidate for their heads."""

    name: str
    version: str
    channels: tuple[str, ...]
    default_channel: str


class ChannelNode(Struct, frozen=True):
    """A bundle in a channel, with the names that it replaces or skips there, which may not be in the index."""

    name: str
    version: str
    targets: tuple[str, ...]


class Entry(Struct, frozen=True):
    """A row of ``channel_entry``; ``replaces`` is the position of another entry of the channel."""

    name: str
    depth: int
    replaces: int | None = None


class ChannelGraph(Struct, frozen=True):
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


class PackageGraph(Struct, frozen=True):
    """A package with its default channel and channels."""

    name: str
    default_channel: str
    channels: tuple[ChannelGraph, ...]


_UNVERSIONED = "0.0.0-z"

Precedence: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers], Identifiers]


@lru_cache(maxsize=4096)
def precedence(version: str) -> Precedence:
    """Return a key that sorts versions as channel heads are chosen.

    Versions that only differ in build metadata are sorted by it, in the order of prereleases; no metadata is lowest.
    A bundle without a version sorts as ``0.0.0-z``.

    Raises:
        GraphError: For a version that is not a strict semantic version, such as ``v1.0.0``, ``1.0`` and ``01.2.3``.
    """
    try:
        parsed = strict_version(version or _UNVERSIONED)
    except ValueError as error:
        raise GraphError(
            f"cannot compare versions: {error}",
            hint="set the version of the ClusterServiceVersion to MAJOR.MINOR.PATCH, without a leading v",
        ) from error
    return *version_key(parsed), identifiers_key(parsed.build)
