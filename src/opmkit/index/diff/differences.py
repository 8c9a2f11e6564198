"""Single differences between two indexes, and their selection by kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from opmkit.core.json_types import JsonResult
from opmkit.index.diff.model import ChangeKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from opmkit.index.diff.model import BundleChange, ChannelChange, IndexDiff, PackageChange


class DifferenceKind(StrEnum):
    """The kind of a difference: a kind of change and the changed object."""

    ADDED_PACKAGE = "added-package"
    REMOVED_PACKAGE = "removed-package"
    ADDED_CHANNEL = "added-channel"
    REMOVED_CHANNEL = "removed-channel"
    ADDED_ENTRY = "added-entry"
    REMOVED_ENTRY = "removed-entry"
    ADDED_BUNDLE = "added-bundle"
    REMOVED_BUNDLE = "removed-bundle"
    CHANGED_BUNDLE = "changed-bundle"
    CHANGED_DEFAULT_CHANNEL = "changed-default-channel"
    CHANGED_HEAD = "changed-head"
    CHANGED_UPGRADE_PATH = "changed-upgrade-path"
    ADDED_DEPRECATION = "added-deprecation"
    REMOVED_DEPRECATION = "removed-deprecation"
    CHANGED_DEPRECATION = "changed-deprecation"
    CHANGED_METADATA = "changed-metadata"
    STRANDED_VERSION = "stranded-version"
    REVERTED_HEAD = "reverted-head"
    REFUSED_UPDATE = "refused-update"
    GAINED_PERMISSION = "gained-permission"

    def __str__(self) -> str:
        """Return the kind in words: ``removed bundle``."""
        return self.value.replace("-", " ")

    @property
    def change(self) -> ChangeKind:
        """The kind of change; an object that is neither added nor removed has changed."""
        prefix = self.value.partition("-")[0]
        return ChangeKind(prefix) if prefix in list(ChangeKind) else ChangeKind.CHANGED


STRANDED = "stranded"
"""Name that selects what keeps installed versions from updates: stranded versions, and heads that moved back."""
STRANDING = frozenset({DifferenceKind.STRANDED_VERSION, DifferenceKind.REVERTED_HEAD})
"""The kinds that `STRANDED` selects."""
KIND_NAMES = (*(kind.value for kind in ChangeKind), STRANDED, *(kind.value for kind in DifferenceKind))
"""Names that select differences; those of `ChangeKind` select the differences of all objects."""


@dataclass(frozen=True, slots=True)
class Difference(JsonResult):
    """A single difference; fields that do not apply are empty.

    Attributes:
        kind: The kind of the difference.
        package: Name of the package, or "" for a bundle that is in no channel of a database.
        channel: Name of the channel.
        bundle: Name of the bundle.
        details: Values before and after, what changed in a bundle, the subject of a deprecation, or the name of the
            changed metadata.
    """

    kind: DifferenceKind
    package: str
    channel: str = ""
    bundle: str = ""
    details: str = ""

    def __str__(self) -> str:
        """Return the difference in one line: ``removed bundle: package "a", bundle "a.v1"``."""
        parts = (("package", self.package), ("channel", self.channel), ("bundle", self.bundle))
        subject = ", ".join(f'{noun} "{name}"' for noun, name in parts if name)
        return ": ".join(filter(None, (str(self.kind), subject, self.details)))


@dataclass(frozen=True, slots=True)
class IndexComparison(JsonResult):
    """The differences between two indexes, and those of them that fail a gate.

    Attributes:
        diff: All differences.
        fail_on: The kinds of differences that fail the gate, empty without a gate.
        failures: The differences of these kinds.
    """

    diff: IndexDiff
    fail_on: tuple[str, ...] = ()
    failures: tuple[Difference, ...] = ()

    @classmethod
    def from_diff(cls, diff: IndexDiff, fail_on: Sequence[str] = ()) -> IndexComparison:
        """Select the differences that fail a gate; raises ValueError for an unknown kind."""
        if unknown := find_unknown_kind(fail_on):
            raise ValueError(unknown)
        return cls(diff, tuple(fail_on), select_differences(diff, fail_on))

    @property
    def passed(self) -> bool:
        """Whether there are no differences of the kinds that fail the gate."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return the differences in JSON types, with the result of the gate if there is one."""
        if not self.fail_on:
            return self.diff.to_dict()
        failures = [failure.to_dict() for failure in self.failures]
        return {**self.diff.to_dict(), "passed": self.passed, "fail_on": list(self.fail_on), "failures": failures}


def find_unknown_kind(names: Iterable[str]) -> str:
    """Return a message about the first name that is not in `KIND_NAMES`, or "" if there is none."""
    unknown = next((name for name in names if name not in KIND_NAMES), None)
    return "" if unknown is None else f'unknown kind "{unknown}": expected {", ".join(KIND_NAMES)}'


def select_differences(diff: IndexDiff, names: Collection[str]) -> tuple[Difference, ...]:
    """Return the differences whose kinds have one of the names, in the order of the packages."""
    selected = {kind for kind in DifferenceKind if kind.value in names or kind.value.partition("-")[0] in names}
    if STRANDED in names:
        selected |= STRANDING
    return tuple(difference for difference in list_differences(diff) if difference.kind in selected)


def list_differences(diff: IndexDiff) -> Iterator[Difference]:
    """Yield each single difference, package by package."""
    for package in diff.packages:
        yield from _package_differences(package)
    for bundle in diff.stranded:
        yield _bundle_difference("", bundle)
    for update in diff.refused:
        details = f"from {update.installed}: {update.definition}: {update.reason}"
        yield Difference(DifferenceKind.REFUSED_UPDATE, update.package, bundle=update.next, details=details)
    for change in diff.permissions:
        for line in change.lines():
            yield Difference(DifferenceKind.GAINED_PERMISSION, change.package, bundle=change.next, details=line)


def _package_differences(package: PackageChange) -> Iterator[Difference]:
    if package.kind is not ChangeKind.CHANGED:
        yield Difference(DifferenceKind(f"{package.kind}-package"), package.name)
    elif package.default_before != package.default_after:
        details = _arrow(package.default_before, package.default_after)
        yield Difference(DifferenceKind.CHANGED_DEFAULT_CHANNEL, package.name, details=details)
    for channel in package.channels:
        yield from _channel_differences(package.name, channel)
    for bundle in package.bundles:
        yield _bundle_difference(package.name, bundle)
    for deprecation in package.deprecations:
        kind = DifferenceKind(f"{deprecation.kind}-deprecation")
        yield Difference(kind, package.name, details=deprecation.subject)
    if package.kind is ChangeKind.CHANGED:
        for name in package.others:
            yield Difference(DifferenceKind.CHANGED_METADATA, package.name, details=name)


def _bundle_difference(package: str, bundle: BundleChange) -> Difference:
    words = {ChangeKind.ADDED: "new ", ChangeKind.REMOVED: "no longer ", ChangeKind.CHANGED: ""}
    details = "; ".join(f"{words[detail.kind]}{detail}" for detail in bundle.details)
    return Difference(DifferenceKind(f"{bundle.kind}-bundle"), package, bundle=bundle.name, details=details)


def _channel_differences(package: str, channel: ChannelChange) -> Iterator[Difference]:
    if channel.kind is not ChangeKind.CHANGED:
        yield Difference(DifferenceKind(f"{channel.kind}-channel"), package, channel.name)
    elif channel.head_before != channel.head_after:
        details = _arrow(channel.head_before, channel.head_after)
        yield Difference(DifferenceKind.CHANGED_HEAD, package, channel.name, details=details)
        if channel.moved_back:
            yield Difference(DifferenceKind.REVERTED_HEAD, package, channel.name, details=details)
    for kind, names in (
        (DifferenceKind.ADDED_ENTRY, channel.bundles_in),
        (DifferenceKind.REMOVED_ENTRY, channel.bundles_out),
        (DifferenceKind.CHANGED_UPGRADE_PATH, channel.edges_changed),
        (DifferenceKind.STRANDED_VERSION, channel.stranded),
    ):
        for name in names:
            yield Difference(kind, package, channel.name, name)


def _arrow(before: str, after: str) -> str:
    return f"{before or 'none'} -> {after or 'none'}"
