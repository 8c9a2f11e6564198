"""Selection of bundles for a mirror by the rules of oc-mirror v2: heads of channels, version bounds, or all."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.versions import strict_version, version_key
from opmkit.index.change import CatalogChange, EditResult
from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, Blobs, OtherBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.operations.deprecate import remove_references
from opmkit.index.suggestions import did_you_mean, join_names, shorten, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob, PackageBlob

_LOOSE_VERSION = re.compile(
    r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)
_MAX_VERSION_LENGTH = 256
_MAX_NUMBER = 2**64 - 1


class VersionBound(Struct, frozen=True):
    """A bound of versions, which may lack a minor or patch version.

    Attributes:
        text: The bound as it was written.
        version: The bound, with zeros for what it lacks.
        parts: The number of its numbers: 3 for ``1.2.3``, 2 for ``1.2``.
    """

    text: str
    version: Version
    parts: int

    @classmethod
    def parse(cls, text: str) -> VersionBound:
        """Parse a version such as ``1.2.3-rc.1``, ``1.2`` or ``v1``.

        Raises:
            ValueError: With the reason, for an invalid version.
        """
        match = _LOOSE_VERSION.fullmatch(text) if len(text) <= _MAX_VERSION_LENGTH else None
        if match is None:
            raise ValueError("is not a version such as 1.2.3 or 1.2")
        numbers = [int(number) for number in match.group(1, 2, 3) if number]
        if max(numbers) > _MAX_NUMBER:
            raise ValueError("has a number that does not fit in 64 bits")
        major, minor, patch = (*numbers, 0, 0)[:3]
        prerelease = f"-{match[4]}" if match[4] else ""
        try:
            return cls(text, strict_version(f"{major}.{minor}.{patch}{prerelease}"), len(numbers))
        except ValueError as error:
            raise ValueError(f"has an invalid prerelease {match[4]!r}") from error

    def is_at_most(self, version: Version) -> bool:
        """Return whether a version is not below this lower bound."""
        return version_key(version) >= version_key(self.version)

    def is_at_least(self, version: Version) -> bool:
        """Return whether a version is not above this upper bound; ``1.2`` includes all of its patch versions."""
        if self.parts == 3:
            return version_key(version) <= version_key(self.version)
        numbers, bound = (version.major, version.minor), (self.version.major, self.version.minor)
        return numbers[: self.parts] <= bound[: self.parts]


class VersionBounds(Struct, frozen=True):
    """The lowest and highest version to mirror; None for no bound."""

    lowest: VersionBound | None = None
    highest: VersionBound | None = None

    def __bool__(self) -> bool:
        """Return whether there is a bound."""
        return bool(self.lowest or self.highest)

    def __str__(self) -> str:
        """Return the bounds as a range."""
        lowest = f">={self.lowest.text}" if self.lowest else ""
        return " ".join(filter(None, (lowest, f"<={self.highest.text}" if self.highest else "")))

    def __contains__(self, version: Version | None) -> bool:
        """Return whether a version is within the bounds; prereleases only are if a bound is one."""
        if version is None:
            return False
        bounds = [bound for bound in (self.lowest, self.highest) if bound]
        if version.prerelease and not any(bound.version.prerelease for bound in bounds):
            return False
        return (self.lowest is None or self.lowest.is_at_most(version)) and (
            self.highest is None or self.highest.is_at_least(version)
        )

    @property
    def only(self) -> VersionBound | None:
        """The only version, if both bounds are written equally."""
        return self.lowest if self.lowest and self.highest and self.lowest.text == self.highest.text else None


class ChannelSelection(Struct, frozen=True):
    """A channel to mirror: its head, or the versions within bounds."""

    name: str
    bounds: VersionBounds = VersionBounds()


class PackageSelection(Struct, frozen=True):
    """A package to mirror.

    Attributes:
        name: The package.
        channels: Its channels to mirror; none for all.
        default_channel: Its new default channel, or "" for the current one.
        bounds: Bounds of the versions in each channel without bounds.
        bundles: The names of the only bundles to mirror; none for a selection by channels and versions.
    """

    name: str
    channels: tuple[ChannelSelection, ...] = ()
    default_channel: str = ""
    bounds: VersionBounds = VersionBounds()
    bundles: tuple[str, ...] = ()

    def bounds_of(self, channel: str) -> VersionBounds:
        """Return the bounds of the versions in a channel."""
        own = next((selected.bounds for selected in self.channels if selected.name == channel), VersionBounds())
        return own or self.bounds


class SelectedContent(Struct, frozen=True):
    """The selected parts of a catalog.

    Attributes:
        default_channels: The default channels of the packages.
        entries: The names of entries by package and channel.
        bundles: The names of bundles by package, which can include bundles that are in no selected channel: those
            selected by name, and those below the lowest entry of a channel.
        warnings: Names that were not found, and bundles outside of the bounds.
    """

    default_channels: Mapping[str, str]
    entries: Mapping[tuple[str, str], frozenset[str]]
    bundles: Mapping[str, frozenset[str]]
    warnings: tuple[str, ...] = ()

    def filter_channel(self, channel: ChannelBlob) -> ChannelBlob:
        """Return a channel with its selected entries only."""
        names = self.entries.get((channel.package, channel.name), frozenset())
        return replace(channel, entries=tuple(entry for entry in channel.entries if entry.name in names))


Versions: TypeAlias = "Mapping[str, Version]"
"""Versions of the bundles of a package by name."""


def select_bundles(blobs: Blobs, packages: Sequence[PackageSelection] = (), *, full: bool = False) -> SelectedContent:
    """Return the parts of a catalog that oc-mirror v2 mirrors.

    Without bounds that is the head of each channel. With bounds, it is the shortest part of the ``replaces`` chain that
    has all versions within the bounds, and the versions within them that this part skips.

    Args:
        blobs: The catalog.
        packages: The packages to mirror; none for all.
        full: Whether to select all bundles of the selected channels.

    Raises:
        CatalogError: A version is invalid, a selected channel has an invalid update graph, a version does not exist, or
            the default channel of a package is not selected or becomes empty; several such errors are combined.
    """
    selector = _Selector(blobs, {package.name: package for package in packages}, full=full)
    return selector.select()


class _Selector:
    def __init__(self, blobs: Blobs, wanted: Mapping[str, PackageSelection], *, full: bool) -> None:
        self.wanted = wanted
        self.full = full
        self.blobs = blobs
        self.packages = {blob.name: blob for blob in blobs.packages if self._is_wanted(blob.name)}
        self.channels = [blob for blob in blobs.channels if self._is_wanted(blob.package, blob.name)]
        self.errors: list[CatalogError] = []
        self.warnings: list[str] = []
        self.versions: defaultdict[str, dict[str, Version]] = defaultdict(dict)

    def _is_wanted(self, package: str, channel: str = "") -> bool:
        selection = self.wanted.get(package)
        if selection is None:
            return not self.wanted
        return not (channel and selection.channels) or channel in {named.name for named in selection.channels}

    def _selection(self, package: str) -> PackageSelection:
        return self.wanted.get(package) or PackageSelection(package)

    def select(self) -> SelectedContent:
        self._warn_about_unknown()
        self._read_versions()
        defaults = {name: self._default_channel(blob) for name, blob in self.packages.items()}
        entries: dict[tuple[str, str], frozenset[str]] = {}
        if not self.errors:
            for channel in self.channels:
                try:
                    entries[channel.package, channel.name] = self._select(channel)
                except CatalogError as error:
                    self.errors.append(error)
        if self.errors:
            raise combine_errors(self.errors)
        names: defaultdict[str, set[str]] = defaultdict(set)
        for (package, _), selected in entries.items():
            names[package] |= {*selected, *self._selection(package).bundles} & self.versions[package].keys()
        return SelectedContent(
            defaults, entries, {name: frozenset(names[name]) for name in names}, tuple(self.warnings)
        )

    def _warn_about_unknown(self) -> None:
        known = {blob.package for blob in self.blobs if not isinstance(blob, OtherBlob)}
        existing = {(blob.package, blob.name) for blob in self.blobs.channels}
        for package in self.wanted.values():
            if package.name not in known:
                self.warnings.append(_not_found(f'package "{package.name}"', package.name, known))
                continue
            names = [name for other, name in existing if other == package.name]
            self.warnings += [
                _not_found(f'package "{package.name}": channel "{channel.name}"', channel.name, names)
                for channel in package.channels
                if (package.name, channel.name) not in existing
            ]

    def _read_versions(self) -> None:
        for bundle in self.blobs.bundles:
            if self._is_wanted(bundle.package):
                try:
                    self.versions[bundle.package][bundle.name] = strict_version(bundle_version(bundle))
                except ValueError as error:
                    self.errors.append(CatalogError(f'bundle "{bundle.name}": invalid version: {error}'))
        for package in self.wanted.values():
            unknown = [name for name in package.bundles if name not in self.versions[package.name]]
            if package.name in self.packages:
                self.warnings += [
                    _not_found(f'package "{package.name}": bundle "{name}"', name, self.versions[package.name])
                    for name in unknown
                ]

    def _default_channel(self, blob: PackageBlob) -> str:
        """Return the default channel of a package, which must be selected."""
        selection = self.wanted.get(blob.name)
        default = (selection.default_channel if selection else "") or blob.default_channel
        names = sorted(channel.name for channel in self.channels if channel.package == blob.name)
        if selection and default and default not in names:
            hint = f"add the channel, or set defaultChannel to one of the selected channels: {join_names(names)}"
            message = f'package "{blob.name}": its default channel "{default}" is not selected'
            self.errors.append(CatalogError(message, hint=hint))
        return default

    def _select(self, channel: ChannelBlob) -> frozenset[str]:
        """Return the names of the entries of a channel to mirror, which may include one below the channel."""
        selection = self._selection(channel.package)
        bounds, names = selection.bounds_of(channel.name), frozenset(entry.name for entry in channel.entries)
        if selection.bundles:
            selected = names.intersection(selection.bundles)
            if selected:
                _UpdateChain(channel, [entry for entry in channel.entries if entry.name in selected])
            return self._checked(channel, selected, "selects none of its bundles")
        if self.full:
            return names
        if not bounds:
            return frozenset({_UpdateChain(channel, channel.entries).head})
        if bounds.only:
            return frozenset({self._find_version(channel.package, bounds.only)})
        return self._checked(channel, self._within(channel, bounds), f"has no version in the range {bounds}")

    def _checked(self, channel: ChannelBlob, selected: frozenset[str], problem: str) -> frozenset[str]:
        package = self.packages.get(channel.package)
        if not selected and package and channel.name == package.default_channel:
            raise CatalogError(
                f'package "{channel.package}": the selection of its default channel "{channel.name}" {problem}',
                hint="select bundles of the default channel, or list other channels and set defaultChannel",
            )
        return selected

    def _find_version(self, package: str, bound: VersionBound) -> str:
        """Return the name of the bundle with a version; of several the one written equally, else the first by name."""
        key, versions = version_key(bound.version), self.versions[package]
        equal = sorted(name for name, version in versions.items() if version_key(version) == key)
        if not equal:
            available = [str(version) for version in sorted(versions.values(), key=version_key, reverse=True)]
            raise CatalogError(
                f'package "{package}": version {bound.text} not found',
                hint=suggest_names("versions", bound.text, available),
            )
        return next((name for name in equal if str(versions[name]) == bound.text.removeprefix("v")), equal[0])

    def _within(self, channel: ChannelBlob, bounds: VersionBounds) -> frozenset[str]:
        versions = self.versions[channel.package]
        selected, outside = _UpdateChain(channel, channel.entries).part_within(bounds, versions)
        if outside:
            self.warnings.append(
                f'package "{channel.package}": channel "{channel.name}": bundles outside of the range {bounds} are '
                f"selected, because updates lead through them: {shorten(outside)}"
            )
        return selected


def _not_found(what: str, name: str, known: Iterable[str]) -> str:
    similar = did_you_mean(name, sorted(known))
    return f"{what} not found; ignored{f' ({similar})' if similar else ''}"


class _UpdateChain:
    """The ``replaces`` chain of a channel from its head down, with what each bundle on it skips.

    Attributes:
        head: The name of the only entry that no other replaces or skips.
    """

    def __init__(self, channel: ChannelBlob, entries: Sequence[EntryBlob]) -> None:
        """Check the update graph of entries; raise CatalogError if it has a cycle or not exactly one head."""
        self._entries = {entry.name: entry for entry in entries}
        problem = _duplicates(entries) or self._find_head() or self._find_cycle()
        if problem:
            raise CatalogError(
                f'package "{channel.package}": channel "{channel.name}": {problem}',
                hint="select other bundles or versions, or correct the catalog",
            )

    def _targets(self, name: str) -> set[str]:
        """Return the names that an entry replaces or skips."""
        entry = self._entries.get(name)
        return {entry.replaces, *entry.skips} - {""} if entry else set()

    def _find_head(self) -> str:
        updated = {target for name in self._entries for target in self._targets(name)}
        if any(name in self._targets(name) for name in self._entries):
            return "an entry replaces or skips itself"
        heads = sorted(name for name in self._entries if name not in updated)
        self.head = heads[0] if heads else ""
        if not heads:
            return "it has no head"
        return f"it has multiple heads: {shorten(heads)}" if len(heads) > 1 else ""

    def _find_cycle(self) -> str:
        """Remove entries without updaters until none is left, and return the problem if a cycle remains."""
        updaters: defaultdict[str, set[str]] = defaultdict(set)
        for name in self._entries:
            for target in self._targets(name):
                updaters[target].add(name)
        waiting = deque([self.head])
        while waiting:
            name = waiting.popleft()
            for target in self._targets(name):
                updaters[target].discard(name)
                if not updaters[target]:
                    del updaters[target]
                    waiting.append(target)
        return f"a cycle of updates has {shorten(sorted(updaters))}" if updaters else ""

    def _chain(self) -> Iterator[str]:
        name = self.head
        while name:
            yield name
            name = self._entries[name].replaces if name in self._entries else ""

    def part_within(self, bounds: VersionBounds, versions: Versions) -> tuple[frozenset[str], list[str]]:
        """Return the names of the shortest part with all versions within bounds, and those outside of them."""
        chain = list(self._chain())
        counts = self._count_below(chain, bounds, versions)
        top = max(index for index, count in enumerate(counts) if count == counts[0])
        end = counts.index(0) if 0 in counts else len(chain)
        part = chain[top:end]
        outside = [name for name in part if versions.get(name) not in bounds]
        skipped = [
            skip
            for name in part
            if name in self._entries
            for skip in self._entries[name].skips
            if versions.get(skip) in bounds
        ]
        return frozenset([*part, *skipped]), outside

    def _count_below(self, chain: Sequence[str], bounds: VersionBounds, versions: Versions) -> list[int]:
        """Return the number of versions within bounds that each bundle of a chain and those below it have or skip."""
        seen: set[str] = set()
        counts = []
        for name in reversed(chain):
            skips = self._entries[name].skips if name in self._entries else ()
            seen.update(each for each in (name, *skips) if versions.get(each) in bounds)
            counts.append(len(seen))
        return counts[::-1]


def _duplicates(entries: Iterable[EntryBlob]) -> str:
    names = [entry.name for entry in entries]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    return f"it has several entries named {shorten(repeated)}" if repeated else "" if names else "it has no entries"


@dataclass(frozen=True, slots=True)
class SelectBundles(CatalogChange):
    """Keep the parts of a file-based catalog that oc-mirror v2 mirrors, as a valid catalog.

    Attributes:
        packages: The packages to mirror; none for all.
        full: Whether to keep all bundles of the selected channels.
        location: File and line of the selection, for messages.
    """

    packages: tuple[PackageSelection, ...] = ()
    full: bool = False
    location: str = ""

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return nothing: it is intended that bundles are left out."""
        return ()

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Select bundles; channels without bundles, and bundles without a channel, are left out.

        Raises:
            CatalogError: The selection is invalid for this catalog, or has no bundles.
            InvalidCatalog: A selected part of the catalog is invalid.
        """
        try:
            selected = select_bundles(blobs, self.packages, full=self.full)
            filtered = self._filter(blobs, selected)
        except CatalogError as error:
            first, *others = error.lines
            raise CatalogError(f"{self.location}: {first}", details=others, hint=error.hint) from error
        raise_findings(check_blobs(filtered))
        warnings = [*selected.warnings, *_left_out(selected, filtered)]
        return EditResult(filtered, warnings=tuple(f"{self.location}: {text}" for text in warnings))

    def _filter(self, blobs: Blobs, selected: SelectedContent) -> Blobs:
        channels = tuple(channel for channel in map(selected.filter_channel, blobs.channels) if channel.entries)
        if not channels:
            names = join_names(sorted(package.name for package in blobs.packages))
            raise CatalogError("the selection has no bundles", hint=f"select packages of the catalog: {names}")
        _check_defaults(selected, channels)
        kept = {(channel.package, entry.name) for channel in channels for entry in channel.entries}
        bundles = tuple(bundle for bundle in blobs.bundles if (bundle.package, bundle.name) in kept)
        packages = {name for name, _ in kept}
        return Blobs(
            tuple(
                replace(blob, default_channel=selected.default_channels[blob.name])
                for blob in blobs.packages
                if blob.name in packages
            ),
            channels,
            bundles,
            remove_references(
                tuple(blob for blob in blobs.deprecations if blob.package in packages), _removed(blobs, channels, kept)
            ),
            tuple(blob for blob in blobs.others if not blob.package or blob.package in packages),
        )


def _left_out(selected: SelectedContent, filtered: Blobs) -> Iterator[str]:
    """Yield a warning for each selected bundle that no channel of the filtered catalog has."""
    kept = {(bundle.package, bundle.name) for bundle in filtered.bundles}
    for package, names in selected.bundles.items():
        for name in sorted(names):
            if (package, name) not in kept:
                yield f'package "{package}": bundle "{name}" is left out: no selected channel has it'


def _check_defaults(selected: SelectedContent, channels: Iterable[ChannelBlob]) -> None:
    """Raise CatalogError if a package would remain without its default channel."""
    remaining: defaultdict[str, list[str]] = defaultdict(list)
    for channel in channels:
        remaining[channel.package].append(channel.name)
    for package, names in remaining.items():
        default = selected.default_channels.get(package, "")
        if default and default not in names:
            raise CatalogError(
                f'package "{package}": no bundle of its default channel "{default}" is selected',
                hint=f"set defaultChannel to one of the remaining channels: {join_names(sorted(names))}",
            )


def _removed(
    blobs: Blobs, channels: Iterable[ChannelBlob], kept: Collection[tuple[str, str]]
) -> set[tuple[str, str, str]]:
    """Return the package, schema and name of each removed channel and bundle."""
    names = {(channel.package, channel.name) for channel in channels}
    removed = {(blob.package, CHANNEL, blob.name) for blob in blobs.channels if (blob.package, blob.name) not in names}
    return removed | {
        (blob.package, BUNDLE, blob.name) for blob in blobs.bundles if (blob.package, blob.name) not in kept
    }
