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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.bundle.permissions.grant import Permissions
    from opmkit.bundle.permissions.kinds import Danger
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob

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


def previous_versions(
    channels: Iterable[ChannelBlob], bundles: Mapping[str, BundleBlob], added: Iterable[str]
) -> list[tuple[BundleBlob | None, BundleBlob]]:
    """Return each added bundle of a package after the versions before it, sorted by name.

    These are the bundles that it replaces in a channel, and the bundle with the highest lower version; None if there
    are none. An added bundle counts as replaced only if its version is lower, so that no cycle hides what it adds.
    """
    names = set(added)
    before: dict[str, set[str]] = {name: set() for name in sorted(names & bundles.keys())}
    versions = {name: version for name, blob in bundles.items() if (version := _version(blob)) is not None}
    ordered = sorted(versions, key=lambda name: (versions[name], name))
    for channel in channels:
        for entry in channel.entries:
            old = entry.replaces
            if entry.name in before and old in bundles and (old not in names or _is_lower(old, entry.name, versions)):
                before[entry.name].add(old)
    edges: list[tuple[BundleBlob | None, BundleBlob]] = []
    for name, replaced in before.items():
        if name in versions:
            position = bisect_left(ordered, versions[name], key=lambda other: versions[other])
            replaced.update(ordered[max(position - 1, 0) : position])
        edges += [(bundles[other], bundles[name]) for other in sorted(replaced)] or [(None, bundles[name])]
    return edges


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
