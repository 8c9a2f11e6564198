"""Dangerous permissions that operators gain by updates between the bundles of a catalog."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.permissions.grant import PlacedObject, read_permissions
from opmkit.bundle.permissions.report import PermissionReport, compare_permissions
from opmkit.bundle.rendering.registry_v1 import flatten
from opmkit.bundle.versions import strict_version
from opmkit.core.json_types import JsonResult
from opmkit.documents.errors import InvalidDocument
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.graph.updates import names_in_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.bundle.permissions.grant import Permissions
    from opmkit.bundle.permissions.kinds import Danger
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob

ImagePermissions: TypeAlias = "Mapping[str, Permissions | str]"
"""Permissions by bundle image, or why they cannot be read."""
ReadPermissions: TypeAlias = "Callable[[Sequence[str]], ImagePermissions]"
"""Reads the permissions of bundle images."""


class PermissionChange(JsonResult, Struct, frozen=True):
    """The dangerous permissions that an operator gains by an update.

    Attributes:
        package: Name of the package.
        installed: Name of the bundle before, or "" for a bundle without a version before it.
        next: Name of the bundle after.
        gained: The permissions, the most dangerous first.
        problem: Why the permissions of one of the bundles cannot be read, or "".
    """

    package: str
    installed: str
    next: str
    gained: tuple[Danger, ...] = ()
    problem: str = ""

    def lines(self) -> Iterator[str]:
        """Yield a line for each permission, or one for the problem."""
        update = f"{self.installed} to {self.next}" if self.installed else self.next
        may = "may now" if self.installed else "may"
        if self.problem:
            yield f"{update}: {self.problem}"
        for danger in self.gained:
            yield f"{update}: {danger.subject} {may} {danger} ({danger.kind})"


def read_images(bundles: Iterable[BundleBlob | None], read: ReadPermissions | None) -> ImagePermissions:
    """Return the permissions of the images of bundles, each of which is read once; nothing without ``read``."""
    images = {blob.image: None for blob in bundles if blob and blob.image} if read else {}
    return read(list(images)) if read and images else {}


def permission_changes(
    edges: Iterable[tuple[BundleBlob | None, BundleBlob]], images: ImagePermissions, *, trust_catalog: bool = True
) -> Iterator[PermissionChange]:
    """Yield the updates by which operators gain dangerous permissions, or whose bundles cannot be read.

    Args:
        edges: The bundle before, None if there is none, and the bundle after each update.
        images: Permissions by image, which take precedence over the objects in the catalog.
        trust_catalog: Whether to use the objects in the catalog for bundles whose image was not read.
    """
    known: dict[int, tuple[BundleBlob, Permissions | str]] = {}
    for before, after in edges:
        found = []
        for blob in filter(None, (before, after)):
            if id(blob) not in known:
                known[id(blob)] = (blob, _permissions(blob, images, trust_catalog=trust_catalog))
            found.append(known[id(blob)][1])
        installed = before.name if before else ""
        change = PermissionChange(after.package, installed, after.name, *_difference(found))
        if change.gained or change.problem:
            yield change


def new_updates(
    channels: Iterable[ChannelBlob],
    bundles: Mapping[str, BundleBlob],
    added: Iterable[str],
    published: Iterable[ChannelBlob] = (),
) -> list[tuple[BundleBlob | None, BundleBlob]]:
    """Return the new updates of a package, sorted by name: the bundle before, and the bundle after each.

    These are the updates to added bundles, and those between others that no published channel offered. An added bundle
    is also an update of the bundle with the highest lower version; its bundle before is None if it is no update. An
    added bundle counts as updated only if its version is lower, so that no cycle hides what it adds. An update is left
    out if its channel also leads, by higher and higher versions, from the bundle before to another one before: what is
    gained on this way is published, or one of the other updates.

    Args:
        channels: The channels.
        bundles: The bundles by name.
        added: Names of bundles that are new, or whose content is.
        published: The channels before.
    """
    names = set(added)
    versions = {name: version for name, blob in bundles.items() if (version := _version(blob)) is not None}
    ordered = sorted(versions, key=lambda name: (versions[name], name))
    channels, published = tuple(channels), tuple(published)
    paths = _Paths((*published, *channels), versions)
    before: dict[str, dict[str, set[str]]] = {name: {} for name in names & bundles.keys()}
    for channel, old, new in _changed_updates(channels, published, names, versions):
        if old in bundles and new in bundles and (old not in names or _is_lower(old, new, versions)):
            before.setdefault(new, {}).setdefault(old, set()).add(channel)
    edges: list[tuple[BundleBlob | None, BundleBlob]] = []
    for name, updated in sorted(before.items()):
        olds = paths.without_earlier(updated, name)
        if name in names & versions.keys():
            position = bisect_left(ordered, versions[name], key=lambda other: versions[other])
            olds.update(ordered[max(position - 1, 0) : position])
        edges += [(bundles[other], bundles[name]) for other in sorted(olds)] or [(None, bundles[name])]
    return edges


def _changed_updates(
    channels: Iterable[ChannelBlob],
    published: Iterable[ChannelBlob],
    added: set[str],
    versions: Mapping[str, Version],
) -> Iterator[tuple[str, str, str]]:
    """Yield channel, bundle before and bundle after of the updates that no published channel offers."""
    offered = {entry for channel in published for entry in channel.entries}
    # skip ranges are slow, and most entries do not change
    changed = [
        (channel.name, entry)
        for channel in channels
        for entry in channel.entries
        if entry.name in added or entry not in offered
    ]
    again = {entry.name for _, entry in changed} - added
    known = {(old, entry.name) for entry in offered if entry.name in again for old in _updated_by(entry, versions)}
    for channel, entry in changed:
        for old in _updated_by(entry, versions):
            if (old, entry.name) not in known:
                yield channel, old, entry.name


def _updated_by(entry: EntryBlob, versions: Mapping[str, Version]) -> set[str]:
    """Return the names of the bundles before: by replacement, by skips, and of versions in the skip range."""
    in_range = names_in_ranges([entry.skip_range], versions)
    return {entry.replaces, *entry.skips, *in_range} - {"", entry.name}


class _Paths:
    """The ways of updates to higher versions, through the published and the new entries of each channel."""

    def __init__(self, channels: Iterable[ChannelBlob], versions: Mapping[str, Version]) -> None:
        self._channels: dict[str, dict[str, set[EntryBlob]]] = {}
        for channel in channels:
            entries = self._channels.setdefault(channel.name, {})
            for entry in channel.entries:
                entries.setdefault(entry.name, set()).add(entry)
        self._versions = versions
        self._below: dict[tuple[str, str], set[str]] = {}

    def without_earlier(self, updated: Mapping[str, set[str]], new: str) -> set[str]:
        """Return the bundles before an update, given with their channels, without those that lead to another one."""
        kept = set(updated)
        lower = {name for name in kept if _is_lower(name, new, self._versions)}
        for later in sorted(lower, key=lambda name: self._versions[name], reverse=True):
            if later in kept:
                kept -= {name for name in kept & lower if self._leads(name, later, updated[name])}
        return kept

    def _leads(self, name: str, later: str, channels: Iterable[str]) -> bool:
        """Return whether the channels of an update, or all others of the bundle before, lead to a later bundle."""
        others = [channel for channel, entries in self._channels.items() if name in entries]
        followed = {one for channel in channels for one in ([channel] if channel in others else others or [channel])}
        return all(name in self._below_of(channel, later) for channel in followed)

    def _below_of(self, channel: str, name: str) -> set[str]:
        """Return the bundles that a channel updates to this one, in one or more steps."""
        if (channel, name) not in self._below:
            found, left = set[str](), [name]
            while left:
                after = left.pop()
                for entry in self._channels[channel].get(after, ()):
                    old = {each for each in _updated_by(entry, self._versions) - found if self._is_lower(each, after)}
                    found |= old
                    left += old
            self._below[channel, name] = found
        return self._below[channel, name]

    def _is_lower(self, old: str, new: str) -> bool:
        return _is_lower(old, new, self._versions)


def _is_lower(old: str, new: str, versions: Mapping[str, Version]) -> bool:
    return old in versions and new in versions and versions[old] < versions[new]


def _difference(found: list[Permissions | str]) -> tuple[tuple[Danger, ...], str]:
    """Return the dangers that the last of one or two bundles adds, or why they are unknown."""
    read = []
    for each in found:
        if isinstance(each, str):
            return (), each
        read.append(each)
    if len(read) == 1:
        return PermissionReport.of(read[0]).dangers, ""
    return compare_permissions(*read).gained_dangers, ""


def _permissions(blob: BundleBlob, images: ImagePermissions, *, trust_catalog: bool) -> Permissions | str:
    """Return the permissions of a bundle, or why they cannot be read."""
    if blob.image in images:
        found = images[blob.image]
        return f"the permissions of {blob.name} cannot be read: {found}" if isinstance(found, str) else found
    if blob.image and not trust_catalog:
        return f"the permissions of {blob.name} are unknown: {blob.image} was not read"
    try:
        return read_permissions(PlacedObject("", value) for item in bundle_objects(blob) for value in flatten(item))
    except (InvalidBundle, InvalidDocument) as error:
        return f"the permissions of {blob.name} cannot be read: {error.message}"


def _version(blob: BundleBlob) -> Version | None:
    try:
        return strict_version(bundle_version(blob))
    except ValueError:
        return None
