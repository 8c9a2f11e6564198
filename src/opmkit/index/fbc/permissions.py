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
    added bundle counts as updated only if its version is lower, so that no cycle hides what it adds.

    Args:
        channels: The channels.
        bundles: The bundles by name.
        added: Names of bundles that are new, or whose content is.
        published: The channels before.
    """
    names = set(added)
    versions = {name: version for name, blob in bundles.items() if (version := _version(blob)) is not None}
    ordered = sorted(versions, key=lambda name: (versions[name], name))
    offered = {entry for channel in published for entry in channel.entries}
    # skip ranges are slow, and most entries do not change
    changed = [
        entry for channel in channels for entry in channel.entries if entry.name in names or entry not in offered
    ]
    again = {entry.name for entry in changed} - names
    known = set(_updates((entry for entry in offered if entry.name in again), versions))
    before: dict[str, set[str]] = {name: set() for name in names & bundles.keys()}
    for old, new in _updates(changed, versions):
        if old not in bundles or new not in bundles or (old, new) in known:
            continue
        if old not in names or _is_lower(old, new, versions):
            before.setdefault(new, set()).add(old)
    for name in names & versions.keys():
        position = bisect_left(ordered, versions[name], key=lambda other: versions[other])
        before[name].update(ordered[max(position - 1, 0) : position])
    edges: list[tuple[BundleBlob | None, BundleBlob]] = []
    for name, updated in sorted(before.items()):
        edges += [(bundles[other], bundles[name]) for other in sorted(updated)] or [(None, bundles[name])]
    return edges


def _updates(entries: Iterable[EntryBlob], versions: Mapping[str, Version]) -> Iterator[tuple[str, str]]:
    """Yield the names before and after each update: by replacement, by skips, and of versions in a skip range."""
    for entry in entries:
        in_range = names_in_ranges([entry.skip_range], versions)
        yield from ((old, entry.name) for old in {entry.replaces, *entry.skips, *in_range} - {"", entry.name})


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
