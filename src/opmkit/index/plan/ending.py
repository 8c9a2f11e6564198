"""Endings of updates with OLM v0: at the head of a channel, or below it and why, and the smallest change that helps."""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import EntryBlob
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.plan.candidate import CatalogEntry
from opmkit.index.plan.namespace import ResolvableCatalog, order_channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from opmkit.bundle.versions import VersionKey

    LeadsOn: TypeAlias = Callable[[ResolvableCatalog, str, CatalogEntry], CatalogEntry | None]
    """Returns the last bundle of the updates of a bundle in a channel, None unless they end at its head."""

MAX_REMEDIES = 100
"""Stuck versions of a plan for which remedies are tried."""
MAX_TRIALS = 4
"""Entries of a channel that are tried as the one to skip a version."""


class Outcome(StrEnum):
    """Where an update path ends."""

    HEAD = "head"
    """At the head of the channel."""
    STUCK = "stuck"
    """Below the head: no entry replaces or skips the version."""
    GONE = "gone"
    """The channel or the package does not exist any more, which blocks all of the namespace."""
    UNRESOLVABLE = "unresolvable"
    """OLM cannot satisfy the requirements of the next version, or cannot read the channel."""
    CIRCULAR = "circular"
    """Updates lead back to an earlier version."""
    REFUSED = "crd"
    """OLM refuses the next update because of a CustomResourceDefinition."""


class Ending(Struct, frozen=True):
    """The end of updates.

    Attributes:
        outcome: Where they end.
        reason: Why they do not end at the head, or "".
        remedy: The smallest change after which they do, or "" if none is known.
    """

    outcome: Outcome
    reason: str = ""
    remedy: str = ""


class RemedyBudget:
    """The number of stuck versions of a plan for which remedies are tried: each trial plans a channel again."""

    def __init__(self, remaining: int = MAX_REMEDIES) -> None:
        """Start with a number."""
        self._remaining = remaining

    def take(self) -> bool:
        """Count a version, and return whether its remedies may be tried."""
        self._remaining -= 1
        return self._remaining >= 0


class ChannelEndings(Struct, frozen=True, dict=True):
    """The endings of updates along a channel of a package, or along all of its channels.

    Attributes:
        catalog: The catalog.
        package: Name of the package.
        channel: Name of the channel, or "" for all, as for a Subscription that names none.
    """

    catalog: ResolvableCatalog
    package: str
    channel: str

    @cached_property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """The entries of the channel."""
        found = (each for each in self.catalog.of_package(self.package) if each.package == self.package)
        return tuple(each for each in found if self.channel in ("", each.channel))

    @cached_property
    def chains(self) -> tuple[Sequence[CatalogEntry], ...]:
        """The entries that OLM considers, of each channel from its head down; raises AmbiguousChannel."""
        names = dict.fromkeys((not entry.in_default_channel, entry.channel) for entry in self.entries)
        return tuple(
            order_channel([entry for entry in self.entries if entry.channel == name]) for _, name in sorted(names)
        )

    @property
    def name(self) -> str:
        """The channel in a sentence."""
        return self.channel or "any channel"

    def ending(self, current: CatalogEntry) -> Ending:
        """Return the ending of a bundle that OLM does not update; raises AmbiguousChannel."""
        heads = {chain[0].name for chain in self.chains}
        options = [
            entry
            for chain in self.chains
            for entry in chain
            if entry.name != current.name and entry.updates_from(current.name, current.bundle.version)
        ]
        if current.name in heads and (self.channel or not options):
            return Ending(Outcome.HEAD)
        if options:
            return _unmet(options[0], self.catalog)
        return Ending(Outcome.STUCK, self._stuck_reason(current))

    def _stuck_reason(self, current: CatalogEntry) -> str:
        """Return why no entry updates a bundle: it is newer, the entry that does is skipped, or there is none."""
        version = current.bundle.version
        head = max((chain[0] for chain in self.chains), key=_order)
        if version and head.bundle.version and version > head.bundle.version:
            return f"{current.name} is newer than {head.name}, the head of channel {head.channel}"
        ignored = [
            entry for entry in self.entries if entry.name != current.name and entry.updates_from(current.name, version)
        ]
        if ignored:
            entry = max(ignored, key=_order)
            by = next((each.name for each in self.entries if entry.name in each.skips), "")
            skipped = f"is itself skipped by {by}" if by else "is not on the chain of replaces from the head"
            return f"{describe_edge(entry, current.name)}, but {skipped}, so that OLM ignores it"
        nearest = _NewerEntries(self.chains[0]).lowest(version)
        replaced = f" ({nearest.name} replaces {nearest.replaces})" if nearest.replaces else ""
        return f"no entry of {self.name} replaces or skips {current.name}{replaced}"


def _order(entry: CatalogEntry) -> tuple[bool, object]:
    return entry.bundle.version is not None, entry.bundle.version or ()


def describe_edge(entry: CatalogEntry | EntryBlob, installed: str) -> str:
    """Return how an entry updates a bundle, as a part of a sentence."""
    if entry.replaces == installed:
        return f"{entry.name} replaces {installed}"
    verb = "skips" if installed in entry.skips else "has a skip range with"
    return f"{entry.name} {verb} {installed}"


def _unmet(entry: CatalogEntry, catalog: ResolvableCatalog) -> Ending:
    """Return the ending before a bundle whose requirements OLM does not satisfy: the first that has no provider."""
    if entry.bundle.is_deprecated:
        reason = f"{entry.name} is deprecated (olm.deprecated), so that OLM does not install it"
        return Ending(Outcome.UNRESOLVABLE, reason, f"publish a version that replaces {entry.name}")
    for requirement in entry.requirements:
        try:
            if not catalog.providers(requirement):
                reason = f"{entry.name} requires {requirement}, which the catalog does not have"
                return Ending(Outcome.UNRESOLVABLE, reason, f"add {requirement} to the catalog")
        except CatalogError as error:
            reason = f"{entry.name} requires {requirement}: {error.message}"
            return Ending(Outcome.UNRESOLVABLE, reason, str(error.hint))
    required = " and ".join(map(str, entry.requirements))
    return Ending(
        Outcome.UNRESOLVABLE,
        f"{entry.name} requires {required}, which exclude each other or have requirements that nothing meets",
        f"change what {entry.name} requires",
    )


class _NewerEntries:
    """The entries of a channel that are newer than those below them, which are nearer to the end of its chain."""

    def __init__(self, chain: Sequence[CatalogEntry]) -> None:
        self._head = chain[0]
        self._versions: list[VersionKey] = []
        self._entries: list[CatalogEntry] = []
        for entry in reversed(chain):
            version = entry.bundle.version
            if version is not None and (not self._versions or version > self._versions[-1]):
                self._versions.append(version)
                self._entries.append(entry)

    def above(self, version: VersionKey | None) -> Sequence[CatalogEntry]:
        """Return the entries that are newer than a version, the lowest first."""
        return self._entries[bisect_right(self._versions, version) :] if version is not None else ()

    def lowest(self, version: VersionKey | None) -> CatalogEntry:
        """Return the lowest entry that is newer than a version; without one, the head."""
        return next(iter(self.above(version)), self._head)


def find_remedy(endings: ChannelEndings, current: CatalogEntry, leads_on: LeadsOn) -> str:
    """Return the smallest change after which a stuck bundle is updated to the head of a channel, or "".

    Each change is applied, validated and planned again, and must not lead to a lower version.
    """
    version, catalog = current.bundle.version, endings.catalog
    package = tuple(catalog.of_package(endings.package))
    if not any(entry.needs_resolution for entry in (*package, current)):
        catalog = ResolvableCatalog(catalog.key, package)  # planned much faster than all of it
    for channel in _other_channels(endings):
        last = leads_on(catalog, channel, current)
        if last and last.name != current.name and _is_newer(last, version):
            return f"follow channel {channel}"
    chain = endings.chains[0]
    members = [each for each in endings.entries if each.channel == chain[0].channel]
    for changed, remedy in _changes(chain, current):
        entries = [changed, *(each for each in members if each.name != changed.name)]
        if check_graph([EntryBlob(each.name, each.replaces, each.skips) for each in entries]) is None:
            last = leads_on(_with_channel(catalog, entries), changed.channel, current)
            if last and (last.name == current.name or _is_newer(last, version)):
                return remedy
    return ""


def _other_channels(endings: ChannelEndings) -> list[str]:
    """Return the other channels of a package, the default channel first."""
    entries = endings.catalog.of_package(endings.package) if endings.channel else ()
    channels = {(not entry.in_default_channel, entry.channel) for entry in entries if entry.package == endings.package}
    return [channel for _, channel in sorted(channels) if channel != endings.channel]


def _changes(chain: Sequence[CatalogEntry], current: CatalogEntry) -> Iterator[tuple[CatalogEntry, str]]:
    """Yield changed entries of a channel, and the changes."""
    version = current.bundle.version
    newer = _NewerEntries(chain).above(version)
    for entry in (*newer[: MAX_TRIALS - 1], *newer[MAX_TRIALS - 1 :][-1:]):
        if not entry.replaces:
            yield entry.with_edges(current.name, entry.skips), f"let {entry.name} replace {current.name}"
        skips = (*entry.skips, current.name)
        yield entry.with_edges(entry.replaces, skips), f"let {entry.name} skip {current.name}"
    if not newer and version is not None and all(entry.name != current.name for entry in chain):
        head = chain[0]
        retained = CatalogEntry(current.bundle, head.catalog, head.channel, head.in_default_channel, head.name)
        yield retained, f"keep {current.name} in channel {head.channel}"


def _is_newer(entry: CatalogEntry, version: VersionKey | None) -> bool:
    return version is None or (entry.bundle.version is not None and entry.bundle.version > version)


def _with_channel(catalog: ResolvableCatalog, entries: Iterable[CatalogEntry]) -> ResolvableCatalog:
    """Return a catalog with other entries of a channel."""
    changed = list(entries)
    package, channel = changed[0].package, changed[0].channel
    others = (each for each in catalog.entries if (each.package, each.channel) != (package, channel))
    return ResolvableCatalog(catalog.key, (*others, *changed), catalog.priority)
