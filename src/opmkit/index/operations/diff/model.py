"""Values of an index state and of the difference between two of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.index.sqlite.state import StoredBundle


class Kind(StrEnum):
    """What became of something."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel: its head, and for each bundle in it what that replaces or skips."""

    head: str
    edges: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PackageState:
    """A package: its default channel, and its channels by name."""

    default_channel: str = ""
    channels: Mapping[str, ChannelState] = field(default_factory=dict)

    @property
    def bundles(self) -> set[str]:
        """The names in any of its channels."""
        return {name for channel in self.channels.values() for name in channel.edges}


@dataclass(frozen=True, slots=True)
class IndexState:
    """The packages of an index, and its bundles by name."""

    packages: Mapping[str, PackageState] = field(default_factory=dict)
    bundles: Mapping[str, StoredBundle] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BundleChange:
    """A bundle that came, went, or has another image or a deprecation now; the values are those after the change,
    those before it for one that went.
    """

    kind: Kind
    name: str
    version: str
    image: str
    deprecated: bool


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """A channel that came, went or changed: its heads before and after, bundles in and out, those with other edges."""

    kind: Kind
    name: str
    head_before: str
    head_after: str
    bundles_in: tuple[str, ...]
    bundles_out: tuple[str, ...]
    edges_changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeprecationChange:
    """What a file-based catalog says of something that is deprecated: ``subject`` is its schema and name."""

    kind: Kind
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class PackageChange:
    """A package that came, went or changed.

    The last two are of file-based catalogs alone: ``others`` are the fields and further documents of the package that
    are not the same, by their names.
    """

    kind: Kind
    name: str
    default_before: str
    default_after: str
    channels: tuple[ChannelChange, ...]
    bundles: tuple[BundleChange, ...]
    deprecations: tuple[DeprecationChange, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexDiff:
    """All that differs; ``stranded`` are bundles in no channel that came or went."""

    packages: tuple[PackageChange, ...]
    stranded: tuple[BundleChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.packages or self.stranded)


def diff_states(before: IndexState, after: IndexState) -> IndexDiff:
    """What differs, by name."""
    nothing = PackageState()
    packages = []
    for name in sorted({*before.packages, *after.packages}):
        old, new = before.packages.get(name, nothing), after.packages.get(name, nothing)
        bundles = tuple(_bundles(before, after, old.bundles | new.bundles))
        change = PackageChange(
            kind_of_change(name, before.packages, after.packages),
            name,
            old.default_channel,
            new.default_channel,
            tuple(channel_changes(old, new)),
            bundles,
        )
        if change.kind is not Kind.CHANGED or old != new or bundles:
            packages.append(change)
    told = {name for state in (before, after) for package in state.packages.values() for name in package.bundles}
    strays = {*before.bundles, *after.bundles} - told
    return IndexDiff(tuple(packages), tuple(_bundles(before, after, strays)))


def kind_of_change(name: str, before: Mapping[str, object], after: Mapping[str, object]) -> Kind:
    """What became of what has that name."""
    if name not in before:
        return Kind.ADDED
    return Kind.CHANGED if name in after else Kind.REMOVED


def channel_changes(old: PackageState, new: PackageState) -> Iterator[ChannelChange]:
    """What became of the channels of a package, by name."""
    nothing = ChannelState("", {})
    for name in sorted({*old.channels, *new.channels}):
        before, after = old.channels.get(name, nothing), new.channels.get(name, nothing)
        if before != after:
            both = before.edges.keys() & after.edges.keys()
            yield ChannelChange(
                kind_of_change(name, old.channels, new.channels),
                name,
                before.head,
                after.head,
                tuple(sorted(after.edges.keys() - before.edges.keys())),
                tuple(sorted(before.edges.keys() - after.edges.keys())),
                tuple(sorted(bundle for bundle in both if before.edges[bundle] != after.edges[bundle])),
            )


def _bundles(before: IndexState, after: IndexState, names: set[str]) -> Iterator[BundleChange]:
    for name in sorted(names & {*before.bundles, *after.bundles}):
        if before.bundles.get(name) != after.bundles.get(name):
            bundle = after.bundles.get(name) or before.bundles[name]
            yield BundleChange(kind_of_change(name, before.bundles, after.bundles), *bundle)
