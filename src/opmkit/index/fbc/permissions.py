"""Dangerous permissions that operators gain by updates between the bundles of a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.permissions.grant import RBAC_KINDS, PlacedObject, read_permissions
from opmkit.bundle.permissions.report import PermissionReport, compare_permissions
from opmkit.bundle.versions import strict_version
from opmkit.core.json_types import JsonResult
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.lenient import mapping
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.csv_metadata import bundle_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from semver import Version

    from opmkit.bundle.permissions.danger import Danger
    from opmkit.bundle.permissions.grant import Permissions
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob

_KINDS = frozenset({CSV_KIND, CRD_KIND, *RBAC_KINDS})


@dataclass(frozen=True, slots=True)
class PermissionChange(JsonResult):
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


def permission_changes(
    edges: Iterable[tuple[BundleBlob | None, BundleBlob]], complete: Mapping[str, BundleBlob]
) -> Iterator[PermissionChange]:
    """Yield the updates by which operators gain dangerous permissions, or whose bundles cannot be read.

    Args:
        edges: The bundle before, None if there is none, and the bundle after each update.
        complete: Bundles with their objects by image, instead of those of the edges.
    """
    known: dict[tuple[str, str], Permissions | str] = {}
    for before, after in edges:
        found = []
        for blob in filter(None, (before, after)):
            key = (blob.package, blob.name)
            if key not in known:
                known[key] = _permissions(complete.get(blob.image, blob))
            found.append(known[key])
        installed = before.name if before else ""
        change = PermissionChange(after.package, installed, after.name, *_difference(found))
        if change.gained or change.problem:
            yield change


def previous_versions(
    channels: Iterable[ChannelBlob], bundles: Mapping[str, BundleBlob], added: Iterable[str]
) -> list[tuple[BundleBlob | None, BundleBlob]]:
    """Return each added bundle of a package after the versions before it, sorted by name.

    These are the bundles that it replaces in a channel, otherwise the bundle with the highest lower version of those
    that were not added, otherwise None.
    """
    names = set(added)
    replaced: dict[str, set[str]] = {name: set() for name in sorted(names & bundles.keys())}
    for channel in channels:
        for entry in channel.entries:
            if entry.name in replaced and entry.replaces in bundles:
                replaced[entry.name].add(entry.replaces)
    versions = {name: version for name, blob in bundles.items() if (version := _version(blob)) is not None}
    edges: list[tuple[BundleBlob | None, BundleBlob]] = []
    for name, before in replaced.items():
        older = [other for other in versions.keys() - names if name in versions and versions[other] < versions[name]]
        if not before and older:
            before = {max(older, key=lambda other: (versions[other], other))}
        edges += [(bundles[other], bundles[name]) for other in sorted(before)] or [(None, bundles[name])]
    return edges


def _difference(found: list[Permissions | str]) -> tuple[tuple[Danger, ...], str]:
    """Return the dangers that the last of one or two bundles adds, or why they are unknown."""
    read = []
    for each in found:
        if isinstance(each, str):
            return (), each
        read.append(each)
    if len(read) == 1:
        return PermissionReport.of(read[0]).dangers, ""
    try:
        return compare_permissions(*read).gained_dangers, ""
    except InvalidBundle as error:
        return (), error.message


def _permissions(blob: BundleBlob) -> Permissions | str:
    """Return the permissions of a bundle, or why they cannot be read."""
    try:
        objects = (mapping(value) for value in bundle_objects(blob))
        return read_permissions(PlacedObject("", value) for value in objects if value.get("kind") in _KINDS)
    except (InvalidBundle, InvalidDocument) as error:
        return f"the permissions of {blob.name} cannot be read: {error.message}"


def _version(blob: BundleBlob) -> Version | None:
    try:
        return strict_version(bundle_version(blob))
    except ValueError:
        return None
