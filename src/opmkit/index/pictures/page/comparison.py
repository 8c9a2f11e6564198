"""Comparison of the update graphs of two catalogs: each package with the bundles and edges of both."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.index.diff.differences import list_differences
from opmkit.index.diff.model import ChangeKind
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import ChannelBlob, EntryBlob
from opmkit.index.fbc.check.graph import natural_key
from opmkit.index.pictures.cycles import find_cycles
from opmkit.index.pictures.layout import layout_channel
from opmkit.index.pictures.view import package_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.index.diff.differences import Difference
    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.pictures.layout import ChannelLayout
    from opmkit.index.pictures.view import PackageView


class RowChange(Struct, frozen=True):
    """The change of a row of a channel; rows are referred to by number.

    Attributes:
        kind: The kind of change, None for an unchanged row.
        is_entry: Whether the row is an entry of the channel in one of the catalogs.
        added: The rows that it replaces or skips now, but not before.
        old_replaces: The row that it replaced before, None if it still does.
        old_skips: The rows that it skipped before, but not now.
        cycle: The number of its cycle among the edges of the second catalog.
    """

    kind: ChangeKind | None
    is_entry: bool
    added: tuple[int, ...] = ()
    old_replaces: int | None = None
    old_skips: tuple[int, ...] = ()
    cycle: int | None = None


class ChannelComparison(Struct, frozen=True):
    """A channel in two catalogs: its entries by name."""

    before: Mapping[str, EntryBlob]
    after: Mapping[str, EntryBlob]
    kind: ChangeKind | None

    def union(self, name: str, package: str) -> ChannelBlob:
        """Return a channel with the entries of both catalogs, and all bundles that they name."""
        entries = {**self.before, **self.after}
        replaced = [self.before[name] for name in self.before if name in self.after]
        named = {name: EntryBlob(name) for entry in replaced for name in _targets(entry) if name not in entries}
        return ChannelBlob(name, package, (*entries.values(), *named.values()))

    def row_changes(self, layout: ChannelLayout, changed: Mapping[str, ChangeKind]) -> Sequence[RowChange]:
        """Return the change of each row; ``changed`` has the changes of bundles."""
        numbers = {row.name: number for number, row in enumerate(layout.rows)}
        removed = self.before.keys() - self.after.keys()
        cycles = find_cycles([() if row.name in removed else row.targets for row in layout.rows])
        return [
            structs.replace(self._row_change(row.name, numbers, changed), cycle=cycles.get(number))
            for number, row in enumerate(layout.rows)
        ]

    def _row_change(self, name: str, numbers: Mapping[str, int], changed: Mapping[str, ChangeKind]) -> RowChange:
        old, new = self.before.get(name), self.after.get(name)
        if old is None or new is None:
            is_entry = old is not new
            kind = (ChangeKind.REMOVED if new is None else ChangeKind.ADDED) if is_entry else None
            return RowChange(kind, is_entry)
        is_changed = name in changed or _edges(old) != _edges(new)
        return RowChange(
            ChangeKind.CHANGED if is_changed else None,
            is_entry=True,
            added=tuple(numbers[target] for target in _targets(new) if target not in _targets(old)),
            old_replaces=numbers[old.replaces] if old.replaces and old.replaces != new.replaces else None,
            old_skips=tuple(
                numbers[target] for target in dict.fromkeys(old.skips) if target and target not in new.skips
            ),
        )


class PackageComparison(Struct, frozen=True):
    """A package in two catalogs.

    Attributes:
        package: The package with the channels and bundles of both catalogs.
        channels: The comparisons of its channels by name.
        changed_bundles: Its bundles with another content, and those that only one catalog has.
        old_images: The images of bundles before, where they changed.
        differences: Its single differences.
    """

    package: PackageView
    channels: Mapping[str, ChannelComparison]
    changed_bundles: Mapping[str, ChangeKind]
    old_images: Mapping[str, str]
    differences: Sequence[Difference]

    @property
    def removed(self) -> set[str]:
        """The names of the bundles that only the first catalog has."""
        return {name for name, kind in self.changed_bundles.items() if kind is ChangeKind.REMOVED}

    def layouts(self) -> Iterator[tuple[ChannelBlob, ChannelLayout, Sequence[RowChange]]]:
        """Yield the channels with their layouts and the changes of their rows."""
        for channel in self.package.channels:
            layout = layout_channel(channel, self.package.keys)
            yield channel, layout, self.channels[channel.name].row_changes(layout, self.changed_bundles)

    def describe(self, difference: Difference) -> str:
        """Return the change of the bundle of a difference as a short remark, or "" if another difference has it."""
        kind, _, noun = difference.kind.value.partition("-")
        channel = self.channels.get(difference.channel)
        match noun:
            case "entry":
                return kind
            case "upgrade-path" if channel:
                return self._describe_edges(channel.before[difference.bundle], channel.after[difference.bundle])
            case "bundle" if kind == ChangeKind.CHANGED:
                return "image changed" if difference.bundle in self.old_images else "content changed"
        return ""

    def _describe_edges(self, before: EntryBlob, after: EntryBlob) -> str:
        added = [name for name in after.skips if name not in before.skips]
        removed = [name for name in before.skips if name not in after.skips]
        remarks = (
            _instead("replaces", self._title(before.replaces), self._title(after.replaces)),
            f"now skips {self._titles(added)}" if added else "",
            f"no longer skips {self._titles(removed)}" if removed else "",
            _instead("skip range", before.skip_range, after.skip_range),
        )
        return ", ".join(filter(None, remarks))

    def _title(self, name: str) -> str:
        return self.package.version(name) or name

    def _titles(self, names: Sequence[str]) -> str:
        return str(len(names)) if len(names) > 3 else " and ".join(map(self._title, names))


def compare_catalogs(before: Blobs, after: Blobs, difference: IndexDiff) -> list[PackageComparison]:
    """Return the packages that differ between two catalogs, which may be invalid, in natural order of their names.

    ``difference`` is that of `opmkit.index.diff.fbc.diff_blobs`.
    """
    differences: defaultdict[str, list[Difference]] = defaultdict(list)
    for each in list_differences(difference):
        differences[each.package].append(each)
    old, new = ({view.name: view for view in package_views(blobs)} for blobs in (before, after))
    names = sorted(differences.keys() & {**old, **new}.keys(), key=natural_key)
    return [compare_packages(old.get(name), new.get(name), differences[name]) for name in names]


def compare_packages(
    before: PackageView | None, after: PackageView | None, differences: Sequence[Difference]
) -> PackageComparison:
    """Compare a package of two catalogs; None for a catalog without it.

    Raises:
        ValueError: Neither catalog has the package.
    """
    base = after or before
    if base is None:
        raise ValueError("no package to compare")
    channels = _compare_channels(before, after)
    old_bundles, new_bundles = before.bundles if before else {}, after.bundles if after else {}
    unions = (channels[name].union(name, base.name) for name in sorted(channels, key=natural_key))
    package = replace(
        base,
        channels=list(unions),
        bundles={**old_bundles, **new_bundles},
        deprecations=_deprecations(before, after),
        keys={**(before.keys if before else {}), **(after.keys if after else {})},
    )
    changed = {
        difference.bundle: difference.kind.change
        for difference in differences
        if difference.kind.value.endswith("-bundle")
    }
    return PackageComparison(package, channels, changed, _old_images(old_bundles, new_bundles), differences)


def _compare_channels(before: PackageView | None, after: PackageView | None) -> dict[str, ChannelComparison]:
    old, new = (
        {channel.name: {entry.name: entry for entry in reversed(channel.entries)} for channel in view.channels}
        if view
        else {}
        for view in (before, after)
    )
    return {
        name: ChannelComparison(
            old.get(name, {}),
            new.get(name, {}),
            None if name in old and name in new else ChangeKind.classify(name, old, new),
        )
        for name in {**old, **new}
    }


def _old_images(before: Mapping[str, BundleBlob], after: Mapping[str, BundleBlob]) -> dict[str, str]:
    both = [name for name in before if name in after]
    return {name: before[name].image for name in both if before[name].image != after[name].image}


def _deprecations(before: PackageView | None, after: PackageView | None) -> Mapping[tuple[str, str], str]:
    """Return the deprecations of the second catalog, and of removed bundles and channels."""
    if before is None or after is None:
        view = before or after
        return view.deprecations if view else {}
    known = {(schemas.BUNDLE, name) for name in after.bundles} | {(schemas.PACKAGE, "")}
    known |= {(schemas.CHANNEL, channel.name) for channel in after.channels}
    removed = {subject: text for subject, text in before.deprecations.items() if subject not in known}
    return {**removed, **after.deprecations}


def _targets(entry: EntryBlob) -> tuple[str, ...]:
    return tuple(filter(None, (entry.replaces, *entry.skips)))


def _edges(entry: EntryBlob) -> tuple[str, set[str], str]:
    return entry.replaces, set(entry.skips), entry.skip_range


def _instead(verb: str, before: str, after: str) -> str:
    if before == after:
        return ""
    if not before:
        return f"now {verb} {after}"
    return f"{verb} {after} instead of {before}" if after else f"no longer {verb} {before}"
