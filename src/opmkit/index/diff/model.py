"""The state of an index of either kind, and the difference between two states.

`IndexDiff` is printed as JSON, so its fields and those of the classes below it are part of the command line interface.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.versions import strict_version
from opmkit.core.json_types import JsonResult
from opmkit.index.graph.updates import ChannelUpdates, moved_back
from opmkit.index.sqlite.rows import bundle_summaries, channel_edges, channel_summaries, skip_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from semver import Version

    from opmkit.index.fbc.definitions import RefusedUpdate
    from opmkit.index.fbc.permissions import PermissionChange
    from opmkit.index.sqlite import IndexDatabase
    from opmkit.index.sqlite.rows import BundleSummary


_LONG = "..."
"""A value that is too long to show, next to one that is not."""
_NO_VERSION = strict_version("0.0.0-0")


class ChangeKind(StrEnum):
    """The kind of a change."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"

    @classmethod
    def classify(cls, name: str, before: Mapping[str, object], after: Mapping[str, object]) -> ChangeKind:
        """Return the kind of change of a name that is in ``before``, ``after`` or both."""
        if name not in before:
            return cls.ADDED
        return cls.CHANGED if name in after else cls.REMOVED


class ChannelState(Struct, frozen=True):
    """A channel: its head, and for each bundle in it the names that it replaces or skips, and its skip range."""

    head: str
    edges: Mapping[str, tuple[str, ...]]
    skip_ranges: Mapping[str, str] = {}

    @property
    def updates(self) -> ChannelUpdates:
        """The updates that the channel offers."""
        return ChannelUpdates((self.head,) if self.head else (), self.edges, self.skip_ranges)


class PackageState(Struct, frozen=True):
    """A package: its default channel, and its channels by name."""

    default_channel: str = ""
    channels: Mapping[str, ChannelState] = {}

    @property
    def bundles(self) -> set[str]:
        """The names of the bundles in its channels."""
        return {name for channel in self.channels.values() for name in channel.edges}


class IndexState(Struct, frozen=True):
    """The packages and the bundles of an index, by name."""

    packages: Mapping[str, PackageState] = {}
    bundles: Mapping[str, BundleSummary] = {}


class BundleDetail(JsonResult, Struct, frozen=True):
    """A single difference between the contents of a bundle before and after.

    Attributes:
        kind: The kind of the difference.
        part: The part of the bundle: ``version``, ``image``, ``deprecated``, ``property TYPE``, ``related image NAME``,
            or ``metadata FIELD`` for a field of ``olm.csv.metadata``.
        before: The value before, empty if it was added or is too long to show.
        after: The value after, empty if it was removed or is too long to show.
    """

    kind: ChangeKind
    part: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        """Return the difference in one line without its sign: ``image: a -> b``."""
        values = self.before or self.after
        if values and self.kind is ChangeKind.CHANGED:
            values = f"{self.before or _LONG} -> {self.after or _LONG}"
        return f"{self.part}: {values}" if values else self.part


class BundleChange(Struct, frozen=True):
    """A changed bundle, with its values after the change, or before it if the bundle was removed.

    ``details`` are the differences of a bundle that is in both indexes.
    """

    kind: ChangeKind
    name: str
    version: str
    image: str
    deprecated: bool
    details: tuple[BundleDetail, ...] = ()


def field_details(before: tuple[str, str, bool], after: tuple[str, str, bool]) -> Iterator[BundleDetail]:
    """Yield the differences between the versions, images and deprecations of a bundle before and after."""
    for part, old, new in zip(("version", "image"), before, after, strict=False):
        if old != new:
            yield BundleDetail(ChangeKind.CHANGED, part, str(old), str(new))
    if before[2] != after[2]:
        yield BundleDetail(ChangeKind.ADDED if after[2] else ChangeKind.REMOVED, "deprecated")


class ChannelChange(Struct, frozen=True):
    """A changed channel: its heads, the added and removed bundles, and the bundles with changed edges.

    ``stranded`` lists the bundles of the channel that OLM updated to its head before, and no longer does. The head has
    ``moved_back`` if it is an older bundle now.
    """

    kind: ChangeKind
    name: str
    head_before: str
    head_after: str
    bundles_in: tuple[str, ...]
    bundles_out: tuple[str, ...]
    edges_changed: tuple[str, ...]
    stranded: tuple[str, ...] = ()
    moved_back: bool = False


class DeprecationChange(Struct, frozen=True):
    """A changed deprecation of a file-based catalog; ``subject`` is the schema and name of the deprecated object."""

    kind: ChangeKind
    subject: str
    message: str


class PackageChange(Struct, frozen=True):
    """A changed package.

    In file-based catalogs, ``others`` lists the names of changed fields of the package and of changed documents with
    other schemas.
    """

    kind: ChangeKind
    name: str
    default_before: str
    default_after: str
    channels: tuple[ChannelChange, ...]
    bundles: tuple[BundleChange, ...]
    deprecations: tuple[DeprecationChange, ...] = ()
    others: tuple[str, ...] = ()


class IndexDiff(JsonResult, Struct, frozen=True):
    """The changed packages, the changed bundles that are in no channel, and what is to be known about new updates.

    These are the updates that OLM refuses, and those by which operators gain dangerous permissions.
    """

    packages: tuple[PackageChange, ...]
    stranded: tuple[BundleChange, ...] = ()
    refused: tuple[RefusedUpdate, ...] = ()
    permissions: tuple[PermissionChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.packages or self.stranded)


def diff_states(before: IndexState, after: IndexState) -> IndexDiff:
    """Return the difference between two states, ordered by name."""
    empty = PackageState()
    packages = []
    for name in sorted({*before.packages, *after.packages}):
        old, new = before.packages.get(name, empty), after.packages.get(name, empty)
        names = old.bundles | new.bundles
        bundles = tuple(_bundle_changes(before, after, names))
        kind = ChangeKind.classify(name, before.packages, after.packages)
        if kind is not ChangeKind.CHANGED or old != new or bundles:
            versions = {
                bundle: known.version
                for bundle in names
                if (known := before.bundles.get(bundle) or after.bundles.get(bundle))
            }
            channels = tuple(channel_changes(old, new, versions))
            packages.append(PackageChange(kind, name, old.default_channel, new.default_channel, channels, bundles))
    placed = {name for state in (before, after) for package in state.packages.values() for name in package.bundles}
    stranded = {*before.bundles, *after.bundles} - placed
    return IndexDiff(tuple(packages), tuple(_bundle_changes(before, after, stranded)))


def channel_changes(old: PackageState, new: PackageState, versions: Mapping[str, str]) -> Iterator[ChannelChange]:
    """Yield the changed channels of a package, ordered by name.

    Args:
        old: The package before, empty if it is new.
        new: The package after, empty if it was removed; then nothing is stranded, since nobody expects updates.
        versions: The versions of the bundles before and after, by name.
    """
    empty = ChannelState("", {})
    parsed = {name: version for name, text in versions.items() if (version := _parse_version(text))}
    for name in sorted({*old.channels, *new.channels}):
        before, after = old.channels.get(name, empty), new.channels.get(name, empty)
        if before != after:
            both = before.edges.keys() & after.edges.keys()
            changed = (bundle for bundle in both if _edges(before, bundle) != _edges(after, bundle))
            is_back = bool(before.head and after.head) and moved_back(before.head, after.head, before.edges, parsed)
            yield ChannelChange(
                ChangeKind.classify(name, old.channels, new.channels),
                name,
                before.head,
                after.head,
                tuple(sorted(after.edges.keys() - before.edges.keys())),
                tuple(sorted(before.edges.keys() - after.edges.keys())),
                tuple(sorted(changed)),
                tuple(_stranded(before, after, versions.keys(), parsed)) if new.channels else (),
                is_back,
            )


def _edges(channel: ChannelState, bundle: str) -> tuple[tuple[str, ...], str]:
    return channel.edges[bundle], channel.skip_ranges.get(bundle, "")


def _stranded(
    before: ChannelState, after: ChannelState, bundles: AbstractSet[str], versions: Mapping[str, Version]
) -> Iterator[str]:
    """Yield the bundles of a channel, oldest first, that no longer reach its head; none if it has no single head."""
    names = before.edges.keys() & bundles
    if not names or (after.edges and not after.head):
        return
    left = before.updates.updatable(names, versions) - after.updates.updatable(names, versions)
    yield from sorted(names & left, key=lambda name: (versions.get(name) or _NO_VERSION, name))


def _parse_version(text: str) -> Version | None:
    try:
        return strict_version(text)
    except ValueError:
        return None


def _bundle_changes(before: IndexState, after: IndexState, names: set[str]) -> Iterator[BundleChange]:
    for name in sorted(names & {*before.bundles, *after.bundles}):
        old, new = before.bundles.get(name), after.bundles.get(name)
        if old != new:
            bundle = after.bundles.get(name) or before.bundles[name]
            details = tuple(field_details(old[1:], new[1:])) if old and new else ()
            yield BundleChange(ChangeKind.classify(name, before.bundles, after.bundles), *bundle, details)


def read_state(database: IndexDatabase) -> IndexState:
    """Read the state of a database, which need not be a valid catalog."""
    edges: defaultdict[tuple[str, str], defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edge in channel_edges(database):
        edges[edge.package, edge.channel][edge.bundle] |= {edge.target} - {""}
    ranges = dict(skip_ranges(database))
    defaults: dict[str, str] = {}
    channels: defaultdict[str, dict[str, ChannelState]] = defaultdict(dict)
    for row in channel_summaries(database):
        defaults[row.package] = row.default_channel
        if row.channel:
            targets = edges[row.package, row.channel]
            channels[row.package][row.channel] = ChannelState(
                row.head,
                {name: tuple(sorted(names)) for name, names in sorted(targets.items())},
                {name: ranges[name] for name in targets if name in ranges},
            )
    packages = {name: PackageState(default, channels[name]) for name, default in defaults.items()}
    return IndexState(packages, {bundle.name: bundle for bundle in bundle_summaries(database)})
