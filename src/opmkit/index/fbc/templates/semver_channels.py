"""Channels for the major and minor versions of bundles, and the updates in them, as semver templates make them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.versions import VersionKey

ARCHETYPES = ("candidate", "fast", "stable")
"""The kinds of channels by how stable they are, the most stable last."""
MAJOR, MINOR = "major", "minor"


class VersionedBundle(NamedTuple):
    """The name of a bundle, and its version as what it is compared by."""

    key: VersionKey
    name: str


Archetypes: TypeAlias = "Mapping[str, Sequence[VersionedBundle]]"
"""The bundles of each archetype, in the order of their versions."""


class SemverChannel(NamedTuple):
    """A channel to be: its archetype and kind, and its bundles in the order of their versions."""

    archetype: str
    kind: str
    bundles: tuple[VersionedBundle, ...]

    @property
    def name(self) -> str:
        """``stable-v1`` or ``stable-v1.2``."""
        major, minor, *_ = self.bundles[0].key
        return f"{self.archetype}-v{major}" + f".{minor}" * (self.kind == MINOR)


_SHARED: dict[str, Callable[[VersionedBundle], tuple[int, ...]]] = {
    MAJOR: lambda one: one.key[:1],
    MINOR: lambda one: one.key[:2],
}
"""What the versions in a channel of each kind share."""


def streams(archetypes: Archetypes, kinds: Iterable[str]) -> list[SemverChannel]:
    """The channels that there are: by archetype, then by kind, then by version."""
    return [
        SemverChannel(archetype, kind, tuple(members))
        for archetype in ARCHETYPES
        for kind in kinds
        for _, members in groupby(archetypes[archetype], _SHARED[kind])
    ]


def channels(found: Iterable[SemverChannel], archetypes: Archetypes, package: str) -> tuple[ChannelBlob, ...]:
    """The channels with their updates, by name."""
    entries = {archetype: {entry.name: entry for entry in _entries(archetypes[archetype])} for archetype in ARCHETYPES}
    made = (
        ChannelBlob(one.name, package, tuple(entries[one.archetype][bundle.name] for bundle in one.bundles))
        for one in found
    )
    return tuple(sorted(made, key=lambda channel: channel.name))


def _entries(bundles: Sequence[VersionedBundle]) -> Iterator[EntryBlob]:
    """The entries of an archetype; they are the same in all its channels.

    Of each minor version the last patch replaces that of the minor version before, within the major version, and skips
    all others that are lower; no other bundle updates anything.
    """
    for _, major in groupby(bundles, lambda one: one.key[0]):
        lower: list[str] = []
        before = ""
        for _, minor in groupby(major, lambda one: one.key[1]):
            *patches, last = (one.name for one in minor)
            yield from map(EntryBlob, patches)
            skips = {*lower, *patches} - {before}
            yield EntryBlob(last, before, tuple(sorted(skips)))
            lower += [*patches, last]
            before = last


def select_default_channel(found: Iterable[SemverChannel], preference: str) -> SemverChannel:
    """The channel that is the default: the most stable, of these the one that begins highest, then the preferred."""
    return max(found, key=lambda one: (*_rank(one), one.kind == preference, one.kind == MINOR))


def select_default_channel_1_26(found: Iterable[SemverChannel]) -> SemverChannel:
    """The same by the rule of v1.26.5, where also one that begins higher wins over a more stable one before it.

    That release leaves it to chance which of a major and a minor channel counts as the first.
    """
    best: SemverChannel | None = None
    for one in sorted(found, key=lambda one: (*_rank(one), one.kind == MAJOR)):
        if best is None or _rank(one)[0] > _rank(best)[0] or _rank(one)[1] > _rank(best)[1]:
            best = one
    if best is None:
        raise ValueError("there is no channel")
    return best


def _rank(stream: SemverChannel) -> tuple[int, VersionKey]:
    return ARCHETYPES.index(stream.archetype), stream.bundles[0].key
