"""Channels of semver templates: one per major or minor version, and the update edges in them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob
from opmkit.index.fbc.compat import Change, Compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey

ARCHETYPES = ("candidate", "fast", "stable")
"""Channel archetypes, from least to most stable."""
MAJOR, MINOR = "major", "minor"


class VersionedBundle(NamedTuple):
    """The name of a bundle with its version key."""

    key: VersionKey
    name: str


Archetypes: TypeAlias = "Mapping[str, Sequence[VersionedBundle]]"
"""The bundles of each archetype, sorted by version."""


class SemverChannel(NamedTuple):
    """A channel to generate: archetype, type (`MAJOR` or `MINOR`), and bundles sorted by version."""

    archetype: str
    channel_type: str
    bundles: tuple[VersionedBundle, ...]

    @property
    def name(self) -> str:
        """Return a name such as ``stable-v1`` or ``stable-v1.2``."""
        major, minor, *_ = self.bundles[0].key
        return f"{self.archetype}-v{major}" + f".{minor}" * (self.channel_type == MINOR)


Linker: TypeAlias = "Callable[[SemverChannel], Iterable[EntryBlob]]"
"""Returns the entries of a channel."""

_VERSION_PREFIX: dict[str, Callable[[VersionedBundle], tuple[int, ...]]] = {
    MAJOR: lambda bundle: bundle.key[:1],
    MINOR: lambda bundle: bundle.key[:2],
}
"""The part of the version that the bundles of a channel share, by channel type."""


def group_channels(archetypes: Archetypes, channel_types: Iterable[str]) -> list[SemverChannel]:
    """Return the channels to generate, by archetype, type and version."""
    return [
        SemverChannel(archetype, channel_type, tuple(members))
        for archetype in ARCHETYPES
        for channel_type in channel_types
        for _, members in groupby(archetypes[archetype], _VERSION_PREFIX[channel_type])
    ]


def channel_blobs(channels: Iterable[SemverChannel], link: Linker, package: str) -> tuple[ChannelBlob, ...]:
    """Return the channels with their entries, sorted by name."""
    blobs = (ChannelBlob(channel.name, package, tuple(link(channel))) for channel in channels)
    return tuple(sorted(blobs, key=lambda blob: blob.name))


def linker(archetypes: Archetypes, compat: Compat) -> Linker:
    """Return the function that creates the entries of a channel with the update edges of a release of Go opm."""
    if compat.has(Change.SKIPS_BY_CHANNEL) and not compat.has(Change.SKIPS_BY_MAJOR_VERSION):
        skip_replaced = not compat.has(Change.NO_SKIPPED_REPLACES)
        return lambda channel: _entries_of_channel(channel.bundles, skip_replaced=skip_replaced)
    entries = {archetype: {entry.name: entry for entry in _entries(archetypes[archetype])} for archetype in ARCHETYPES}
    return lambda channel: (entries[channel.archetype][bundle.name] for bundle in channel.bundles)


def _entries_of_channel(bundles: Iterable[VersionedBundle], *, skip_replaced: bool) -> Iterator[EntryBlob]:
    """Yield the entries of a channel by the rules of Go opm 1.37 to 1.60.

    The highest patch version of each minor version replaces that of the previous minor version, and skips the other
    patch versions of that minor version, and with ``skip_replaced`` the replaced one as well.
    """
    previous = ""
    for _, minor in groupby(bundles, lambda bundle: bundle.key[:2]):
        *patches, last = (bundle.name for bundle in minor)
        yield from map(EntryBlob, patches)
        replaced = (previous,) if previous and skip_replaced else ()
        yield EntryBlob(last, previous, (*replaced, *patches))
        previous = last


def _entries(bundles: Sequence[VersionedBundle]) -> Iterator[EntryBlob]:
    """Yield the entries of an archetype, which are the same in all its channels.

    The highest patch version of each minor version replaces that of the previous minor version with the same major
    version, and skips all other lower versions. Other bundles have no edges.
    """
    for _, major in groupby(bundles, lambda bundle: bundle.key[0]):
        lower: list[str] = []
        previous = ""
        for _, minor in groupby(major, lambda bundle: bundle.key[1]):
            *patches, last = (bundle.name for bundle in minor)
            yield from map(EntryBlob, patches)
            skips = {*lower, *patches} - {previous}
            yield EntryBlob(last, previous, tuple(sorted(skips)))
            lower += [*patches, last]
            previous = last


def select_default_channel(channels: Iterable[SemverChannel], preference: str) -> SemverChannel:
    """Return the most stable channel, then the one with the highest first version, then that of the preferred type."""
    return max(
        channels,
        key=lambda channel: (*_rank(channel), channel.channel_type == preference, channel.channel_type == MINOR),
    )


def select_default_channel_1_26(channels: Iterable[SemverChannel]) -> SemverChannel:
    """Return the default channel by the rule of Go opm v1.26.5.

    There, a channel with a higher first version also wins over a more stable one before it. Whether major or minor
    channels come first is random in that release; here it is minor channels.
    """
    best: SemverChannel | None = None
    for channel in sorted(channels, key=lambda channel: (*_rank(channel), channel.channel_type == MAJOR)):
        if best is None or _rank(channel)[0] > _rank(best)[0] or _rank(channel)[1] > _rank(best)[1]:
            best = channel
    if best is None:
        raise ValueError("no channels")
    return best


def _rank(channel: SemverChannel) -> tuple[int, VersionKey]:
    return ARCHETYPES.index(channel.archetype), channel.bundles[0].key
