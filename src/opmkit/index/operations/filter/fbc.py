"""Filter a file-based catalog by packages, channels and versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, structs

from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.core.hints import Hint
from opmkit.index.change import CatalogChange, EditResult
from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, Blobs, OtherBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import channel_heads, check_graph
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.packages import select_packages
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.operations.deprecate import remove_references
from opmkit.index.operations.filter.result import (
    FilterResult,
    PackageFilter,
    RemovedCounts,
    RetainedBundle,
    RetainedChannel,
    unmet_requirements,
)
from opmkit.index.suggestions import join_names, suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob
    from opmkit.index.operations.filter.result import UnmetRequirement


def filter_blobs(
    blobs: Blobs,
    filters: Sequence[PackageFilter],
    *,
    default_channels: Mapping[str, str] | None = None,
    with_dependencies: bool = False,
    permissive: bool = False,
) -> FilterResult:
    """Keep what matches a filter, and the channel entries that valid update graphs need in addition.

    Edges are not changed. Bundles that are in no channel any longer are removed, and so are deprecations of removed
    objects. Documents of other schemas stay with their package; those without a package always stay.

    Args:
        blobs: A valid catalog.
        filters: At least one.
        default_channels: New default channels by package, for packages whose default channel is removed.
        with_dependencies: Also keep whole packages that provide what the retained bundles require.
        permissive: Ignore packages and channels that are not found, with a warning each, unless none is found.

    Raises:
        UnknownPackage, CatalogError: A package or channel does not exist, a range matches no version, or a default
            channel would be removed; several such errors are combined.
        InvalidCatalog: A package to keep is invalid.
    """
    filters, ignored = _existing(blobs, filters) if permissive else (list(filters), ())
    required: list[RetainedBundle] = []
    while True:
        packages = _filter_packages(blobs, filters, default_channels or {})
        unmet = unmet_requirements(blobs.bundles, [bundle for package in packages for bundle in package.blobs.bundles])
        providers = _providers(unmet, {wanted.package for wanted in filters}) if with_dependencies else []
        if not providers:
            return _result(blobs, packages, required, unmet, ignored)
        filters += [PackageFilter(provider.package) for provider in providers]
        required += providers


def _existing(blobs: Blobs, filters: Sequence[PackageFilter]) -> tuple[list[PackageFilter], tuple[str, ...]]:
    """Return the filters without unknown packages and channels, or all if nothing exists; and warnings."""
    packages = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    channels = {(channel.package, channel.name) for channel in blobs.channels}
    existing: list[PackageFilter] = []
    warnings: list[str] = []
    for wanted in filters:
        known = tuple(name for name in wanted.channels if (wanted.package, name) in channels)
        if wanted.package not in packages:
            warnings.append(f'package "{wanted.package}" not found; ignored')
        else:
            unknown = [name for name in wanted.channels if name not in known]
            warnings += [f'channel "{name}" of package "{wanted.package}" not found; ignored' for name in unknown]
            existing += [structs.replace(wanted, channels=known)] if known or not wanted.channels else []
    return existing or list(filters), tuple(warnings)


def _filter_packages(
    blobs: Blobs, filters: Iterable[PackageFilter], default_channels: Mapping[str, str]
) -> list[FilteredPackage]:
    """Filter each package, in order of name."""
    by_package: defaultdict[str, list[PackageFilter]] = defaultdict(list)
    for wanted in filters:
        by_package[wanted.package].append(wanted)
    names = sorted(by_package)
    known = {blob.package for blob in blobs if not isinstance(blob, OtherBlob)}
    errors: list[CatalogError] = [*unknown_packages(names, known)]
    errors += [_default_of_removed(name, names) for name in default_channels if name not in names]
    if errors:
        raise combine_errors(errors)
    packages = select_packages(blobs, names)
    raise_findings(fault for package in packages.values() for fault in check_blobs(package))
    filtered = []
    for name, package in packages.items():
        try:
            filtered.append(filter_package(package, by_package[name], default_channels.get(name, "")))
        except CatalogError as error:
            errors.append(error)
    if errors:
        raise combine_errors(errors)
    return filtered


def _default_of_removed(package: str, names: Sequence[str]) -> CatalogError:
    return CatalogError(
        f'package "{package}": default channel given for a package that is removed',
        hint=suggest_names("retained packages", package, names),
    )


def _providers(unmet: Iterable[UnmetRequirement], known: Collection[str]) -> list[RetainedBundle]:
    """Return the packages that are not retained yet but meet a requirement."""
    providers: dict[str, RetainedBundle] = {}
    for requirement in unmet:
        for package in requirement.providers:
            if package not in known:
                providers.setdefault(package, RetainedBundle(package, "", "", str(requirement)))
    return list(providers.values())


def _result(
    blobs: Blobs,
    packages: Sequence[FilteredPackage],
    required: Iterable[RetainedBundle],
    unmet: Iterable[UnmetRequirement],
    ignored: tuple[str, ...],
) -> FilterResult:
    without_package = [blob for blob in blobs.others if not blob.package]
    kept = Blobs.from_blobs([*(blob for package in packages for blob in package.blobs), *without_package])
    return FilterResult(
        kept,
        tuple(channel for package in packages for channel in package.channels),
        (*required, *(bundle for package in packages for bundle in package.retained)),
        RemovedCounts(
            len(blobs.packages) - len(kept.packages),
            len(blobs.channels) - len(kept.channels),
            len(blobs.bundles) - len(kept.bundles),
        ),
        (
            *ignored,
            *(
                f"{requirement}, which is left out: {' and '.join(requirement.providers)} had it"
                for requirement in unmet
            ),
        ),
    )


def needed_entries(entries: Sequence[EntryBlob], selected: Collection[str]) -> dict[str, str]:
    """Return the names of the entries that a valid graph needs in addition to the selected ones, with the reasons.

    The result is minimal. Of alternatives the earlier in ``entries`` is chosen, which are in ascending order of
    version. ``selected`` contains the name of at least one entry.
    """
    if not check_graph([entry for entry in entries if entry.name in selected]):
        return {}
    count = len(entries) + 1
    while len(entries) < count:
        count = len(entries)
        entries = _minimize(_above(entries, selected), selected)
    graph = _Graph(entries)
    return {entry.name: _reason(graph, entry.name, selected) for entry in entries if entry.name not in selected}


def _above(entries: Sequence[EntryBlob], selected: Collection[str]) -> list[EntryBlob]:
    """Return the entries that the selected ones can be updated to, and the head: a valid graph as well."""
    graph = _Graph(entries)
    found, waiting = {graph.head, *selected}, list(selected)
    while waiting:
        new = graph.updaters[waiting.pop()] - found
        found |= new
        waiting += new
    return [entry for entry in entries if entry.name in found]


def _minimize(entries: Sequence[EntryBlob], selected: Collection[str]) -> list[EntryBlob]:
    """Remove entries from a valid graph as long as it stays valid, the latest first."""
    graph = _Graph(entries)
    latest_first = [entry.name for entry in reversed(entries) if entry.name not in selected]
    while (name := next(filter(graph.can_remove, latest_first), None)) is not None:
        graph.remove(name)
        latest_first.remove(name)
    return [entry for entry in entries if entry.name in graph.entries]


class _Graph:
    """A valid graph from which entries are removed.

    ``updaters`` maps each entry to those that replace or skip it. ``sole_updates`` counts for each entry the others
    that it alone replaces or skips.
    """

    def __init__(self, entries: Iterable[EntryBlob]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.skippers: defaultdict[str, set[str]] = defaultdict(set)
        self.updaters: defaultdict[str, set[str]] = defaultdict(set)
        for entry in self.entries.values():
            for skip in entry.skips:
                self.skippers[skip].add(entry.name)
            for target in _targets(entry):
                self.updaters[target].add(entry.name)
        self.sole_updates = Counter(updater for name in self.entries for updater in self._sole_updater(name))
        self.head = next(name for name in self.entries if not self.updaters[name])

    def _sole_updater(self, name: str) -> Iterator[str]:
        if len(self.updaters[name]) == 1:
            yield from self.updaters[name] - {name}

    def only_updated_by(self, name: str) -> list[str]:
        """Return the entries that no other entry replaces or skips, sorted."""
        targets = _targets(self.entries[name]) & self.entries.keys() - {name}
        return sorted(target for target in targets if self.updaters[target] == {name})

    def can_remove(self, name: str) -> bool:
        """Return whether the graph is valid without an entry."""
        if self.sole_updates[name] != (name == self.head):  # else there would be several heads, or none
            return False
        head = self.only_updated_by(name)[0] if name == self.head else self.head
        chain = self.chain(head, without=name)
        return chain is not None and all(
            other in chain or self.skippers[other] - {name} for other in self.entries if other != name
        )

    def chain(self, head: str, *, without: str = "") -> dict[str, None] | None:
        """Return the replaces chain from a head, in order; None if it has a cycle."""
        chain = {head: None}
        below = self.entries[head].replaces
        while below in self.entries and below != without and not self.skippers[below] - {without}:
            if below in chain:
                return None
            chain[below] = None
            below = self.entries[below].replaces
        return chain

    def remove(self, name: str) -> None:
        """Remove an entry for which `can_remove` is true."""
        if name == self.head:
            (self.head,) = self.only_updated_by(name)
        self.sole_updates.subtract(self._sole_updater(name))
        for target in _targets(self.entries.pop(name)):
            self.skippers[target].discard(name)
            self.updaters[target].discard(name)
            if target in self.entries:
                self.sole_updates.update(self._sole_updater(target))


def _targets(entry: EntryBlob) -> set[str]:
    """Return the names that an entry replaces or skips."""
    return {entry.replaces, *entry.skips} - {""}


def _reason(graph: _Graph, name: str, selected: Collection[str]) -> str:
    chain = list(graph.chain(graph.head) or ())
    if name in chain[1:-1]:
        position = chain.index(name)
        above = next((other for other in reversed(chain[:position]) if other in selected), chain[0])
        below = next((other for other in chain[position:] if other in selected), chain[-1])
        return f"it lies between {above} and {below} on the replaces chain"
    if only := graph.only_updated_by(name):
        return f"nothing else that stays replaces or skips {', '.join(only)}"
    fault = check_graph([entry for entry in graph.entries.values() if entry.name != name])
    return f"without it: {fault.message}" if fault else ""


Versions: TypeAlias = "Mapping[str, Version]"
"""The versions of bundles by name, in ascending order."""


class FilteredPackage(Struct, frozen=True):
    """The remaining blobs of a package, its channels, and the bundles retained for a valid graph."""

    blobs: Blobs
    channels: tuple[RetainedChannel, ...]
    retained: tuple[RetainedBundle, ...]


def filter_package(package: Blobs, filters: Iterable[PackageFilter], default_channel: str = "") -> FilteredPackage:
    """Filter a valid package; ``default_channel`` is its new default channel, or "" for the current one.

    Raises:
        CatalogError: A channel does not exist, a range matches no version, or the default channel would be removed.
    """
    versions = _versions(package.bundles)
    selected = _select(package.channels, filters, versions)
    (blob,) = package.packages
    default = default_channel or blob.default_channel
    if default not in selected:
        raise _default_removed(blob.name, default, sorted(selected), package.channels)
    channels: list[ChannelBlob] = []
    retained_channels: list[RetainedChannel] = []
    retained: list[RetainedBundle] = []
    for channel in package.channels:
        if channel.name in selected:
            filtered, needed = _filter_channel(channel, selected[channel.name], versions)
            channels.append(filtered)
            retained_channels.append(_compare(channel, filtered))
            retained += [RetainedBundle(blob.name, channel.name, name, reason) for name, reason in needed.items()]
    blobs = _with_channels(package, tuple(channels))
    if default != blob.default_channel:
        blobs = replace(blobs, packages=(replace(blob, default_channel=default),))
    return FilteredPackage(blobs, tuple(retained_channels), tuple(retained))


def _versions(bundles: Iterable[BundleBlob]) -> Versions:
    versions = {bundle.name: strict_version(bundle_version(bundle)) for bundle in bundles}
    return dict(sorted(versions.items(), key=lambda item: (item[1], item[0])))


def _select(
    channels: Sequence[ChannelBlob], filters: Iterable[PackageFilter], versions: Versions
) -> dict[str, set[str]]:
    """Return the names of the matching entries of each channel that has any."""
    selected: defaultdict[str, set[str]] = defaultdict(set)
    errors: list[CatalogError] = []
    by_name = {channel.name: channel for channel in channels}
    for wanted in filters:
        errors += [_unknown_channel(wanted.package, name, by_name) for name in wanted.channels if name not in by_name]
        named = [by_name[name] for name in wanted.channels or by_name if name in by_name]
        matches = {channel.name: _in_range(channel, wanted.version_range, versions) for channel in named}
        for group in [[channel] for channel in named] if wanted.channels else [named]:
            if not any(matches[channel.name] for channel in group):
                errors.append(_nothing_in_range(wanted, group, versions))
        for name, entries in matches.items():
            selected[name] |= entries
    if errors:
        raise combine_errors(errors)
    return {name: entries for name, entries in selected.items() if entries}


def _in_range(channel: ChannelBlob, version_range: str, versions: Versions) -> set[str]:
    names = {entry.name for entry in channel.entries}
    if not version_range:
        return names
    parsed = VersionRange.parse(version_range)
    return {name for name in names if versions[name] in parsed}


def _filter_channel(
    channel: ChannelBlob, selected: Collection[str], versions: Versions
) -> tuple[ChannelBlob, dict[str, str]]:
    """Return the channel with the selected and the needed entries, and the reason for each needed one."""
    if len(selected) == len(channel.entries):
        return channel, {}
    by_name = {entry.name: entry for entry in channel.entries}
    needed = needed_entries([by_name[name] for name in versions if name in by_name], selected)
    entries = tuple(entry for entry in channel.entries if entry.name in selected or entry.name in needed)
    return replace(channel, entries=entries), needed


def _with_channels(package: Blobs, channels: tuple[ChannelBlob, ...]) -> Blobs:
    """Return the package with these channels, the bundles in them, and the deprecations of both."""
    placed = {entry.name for channel in channels for entry in channel.entries}
    names = {channel.name for channel in channels}
    removed = {(channel.package, CHANNEL, channel.name) for channel in package.channels if channel.name not in names}
    removed |= {(bundle.package, BUNDLE, bundle.name) for bundle in package.bundles if bundle.name not in placed}
    bundles = tuple(bundle for bundle in package.bundles if bundle.name in placed)
    deprecations = remove_references(package.deprecations, removed)
    return replace(package, channels=channels, bundles=bundles, deprecations=deprecations)


def _compare(before: ChannelBlob, after: ChannelBlob) -> RetainedChannel:
    heads = (*channel_heads(after.entries), *channel_heads(before.entries))
    return RetainedChannel(before.package, before.name, len(after.entries), len(before.entries), *heads)


def _unknown_channel(package: str, name: str, known: Iterable[str]) -> CatalogError:
    return CatalogError(
        f'package "{package}": channel "{name}" not found', hint=suggest_names("channels", name, sorted(known))
    )


def _nothing_in_range(wanted: PackageFilter, channels: Sequence[ChannelBlob], versions: Versions) -> CatalogError:
    named = f'channel "{channels[0].name}" of ' if wanted.channels else ""
    names = {entry.name for channel in channels for entry in channel.entries}
    available = [str(version) for name, version in versions.items() if name in names]
    return CatalogError(
        f'{named}package "{wanted.package}": no version in the range "{wanted.version_range}"',
        hint=f"choose a range that includes one of the versions: {join_names(available[::-1])}",
    )


def _default_removed(
    package: str, name: str, remaining: Sequence[str], channels: Sequence[ChannelBlob]
) -> CatalogError:
    if all(channel.name != name for channel in channels):
        return _unknown_channel(package, name, remaining)
    return CatalogError(
        f'package "{package}": its default channel "{name}" would be removed',
        hint=Hint(
            "keep it, or select another default channel, such as {} (remaining channels: {})",
            IndexSetting.DEFAULT_CHANNEL.with_value(f"{package}={remaining[0]}"),
            join_names(remaining),
        ),
    )


@dataclass(frozen=True, slots=True)
class FilterPackages(CatalogChange):
    """Keep the parts of a file-based catalog that match a filter, and the entries that their update graphs need.

    Attributes:
        filters: Packages, channels and versions to keep.
        default_channels: New default channels by package.
        with_dependencies: Keep the packages that retained bundles depend on.
        permissive: Report packages and channels that do not exist as warnings.
    """

    filters: Sequence[PackageFilter]
    default_channels: Mapping[str, str] = field(default_factory=dict)
    with_dependencies: bool = False
    permissive: bool = False

    @classmethod
    def parse(
        cls,
        filters: Sequence[str],
        *,
        default_channels: Mapping[str, str] | None = None,
        with_dependencies: bool = False,
        permissive: bool = False,
    ) -> FilterPackages:
        """Parse filters of the form ``PACKAGE[:CHANNEL,...][@RANGE]``; raises CatalogError."""
        from opmkit.index.operations.filter.result import PackageFilter

        parsed = list(map(PackageFilter.parse, filters))
        return cls(parsed, default_channels or {}, with_dependencies, permissive)

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return nothing: the report names what is left out, and the entries that update graphs need remain."""
        return ()

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Filter a file-based catalog."""

        result = filter_blobs(
            blobs,
            self.filters,
            default_channels=self.default_channels,
            with_dependencies=self.with_dependencies,
            permissive=self.permissive,
        )
        return EditResult(result.blobs, warnings=result.warnings, report=result)
