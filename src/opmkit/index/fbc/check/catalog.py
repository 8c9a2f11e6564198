"""The rules that a file-based catalog must keep to be listed, served or built upon, those of the newest reference.

What is wrong is said in the words that the reference has for it, as far as it has any, since people search for them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.bundle.versions import VersionRange
from opmkit.index.fbc.base64text import decode_base64
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE
from opmkit.index.fbc.check.bundle import check_bundle, version_with_release
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import CatalogFinding, Issue, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import (
        Blobs,
        BundleBlob,
        ChannelBlob,
        Deprecation,
        DeprecationsBlob,
        EntryBlob,
        PackageBlob,
    )

PackagePart: TypeAlias = "PackageBlob | ChannelBlob | BundleBlob | DeprecationsBlob"


def check_blobs(blobs: Blobs, compat: Compat = Compat.NEWEST) -> tuple[CatalogFinding, ...]:
    """All that is wrong with a catalog by the rules of a release of the reference, package by package."""
    if compat is Compat.NEWEST:
        return tuple(fault for package in group_by_package(blobs) for fault in _package_faults(package, compat))
    known = replace(blobs, deprecations=())  # which are like any other document there
    faults = (fault for package in group_by_package(known) for fault in _package_faults(package, compat))
    return tuple(fault for fault in faults if not fault.since)


@dataclass(frozen=True, slots=True)
class PackageBlobs:
    """The blobs that belong to one package."""

    name: str
    packages: list[PackageBlob] = field(default_factory=list)
    channels: list[ChannelBlob] = field(default_factory=list)
    bundles: list[BundleBlob] = field(default_factory=list)
    deprecations: list[DeprecationsBlob] = field(default_factory=list)

    @property
    def belonging(self) -> tuple[ChannelBlob | BundleBlob | DeprecationsBlob, ...]:
        """All but the package itself."""
        return (*self.channels, *self.bundles, *self.deprecations)


def group_by_package(blobs: Blobs) -> list[PackageBlobs]:
    """The blobs by their packages, sorted by name."""
    found: dict[str, PackageBlobs] = {}

    def of(name: str) -> PackageBlobs:
        return found.setdefault(name, PackageBlobs(name))

    for package in blobs.packages:
        of(package.name).packages.append(package)
    for channel in blobs.channels:
        of(channel.package).channels.append(channel)
    for bundle in blobs.bundles:
        of(bundle.package).bundles.append(bundle)
    for deprecations in blobs.deprecations:
        of(deprecations.package).deprecations.append(deprecations)
    return [found[name] for name in sorted(found)]


def _package_faults(parts: PackageBlobs, compat: Compat) -> Iterator[CatalogFinding]:
    if not parts.name:
        yield from _nameless(parts)
        return
    if not parts.packages:
        yield _undefined(parts)
    for package in parts.packages[:1]:
        for told in _definition_faults(package, parts):
            yield blob_finding(package, told)
    for blobs in (parts.packages, parts.channels, parts.bundles, parts.deprecations):
        yield from _twice(blobs)
    names = {bundle.name for bundle in parts.bundles}
    for channel in parts.channels:
        yield from _channel_faults(channel, names, compat)
    yield from _bundle_faults(parts)
    for deprecations in parts.deprecations:
        for told in _deprecation_faults(deprecations, parts):
            yield blob_finding(deprecations, told)


def blob_finding(blob: PackagePart, told: Issue, entry: str = "") -> CatalogFinding:
    """A fault of a blob, or of an entry of a channel."""
    channel = blob.name if blob.schema == CHANNEL else ""
    bundle = blob.name if blob.schema == BUNDLE else entry
    return CatalogFinding(blob.location, told.message, Subject(blob.package, channel, bundle), told.advice, told.since)


def _nameless(parts: PackageBlobs) -> Iterator[CatalogFinding]:
    for package in parts.packages:
        yield blob_finding(package, Issue("package name must not be empty", "Give the package a name."))
    for blob in parts.belonging:
        yield blob_finding(
            blob, Issue("package name must be set", f"Say which package the {_kind(blob.schema)} belongs to.")
        )


def _kind(schema: str) -> str:
    return schema.removeprefix("olm.").removesuffix("s")


def _undefined(parts: PackageBlobs) -> CatalogFinding:
    kinds = Counter(_kind(blob.schema) for blob in parts.belonging)
    told = ", ".join(f"{count} {kind}" + "s" * (count > 1) for kind, count in kinds.items())
    advice = f"Add a document with schema: {PACKAGE}, name: {parts.name} and a defaultChannel, or correct the name."
    return CatalogFinding(
        parts.belonging[0].location, f'unknown package "{parts.name}", which has {told}', advice=advice
    )


def _twice(blobs: Iterable[PackagePart]) -> Iterator[CatalogFinding]:
    """Those of a schema that have the name of one before."""
    first: dict[str, PackagePart] = {}
    for blob in blobs:
        known = first.setdefault(blob.name, blob)
        if known is not blob:
            since = "1.32" if blob.schema == DEPRECATIONS else ""
            told = f"duplicate {_kind(blob.schema)}: the first is at {known.location}"
            yield blob_finding(blob, Issue(told, "Keep one of them.", since))


def _definition_faults(package: PackageBlob, parts: PackageBlobs) -> Iterator[Issue]:
    names = sorted({channel.name for channel in parts.channels if channel.name})
    for problem in dns1123_label(package.name):
        yield Issue(f"invalid package name: {problem}", "Rename it in all its documents.", since="1.41")
    if package.icon and decode_base64(package.icon.data) is None:
        yield Issue("icon.base64data is not valid base64", "Encode the image with base64, or leave out the icon.")
    if not parts.channels:
        yield Issue("package must contain at least one channel", f"Add a document with schema: {CHANNEL}.")
    if not package.default_channel:
        yield Issue("default channel must be set", f"Set defaultChannel to one of: {', '.join(names)}.")
    elif package.default_channel not in names and names:
        told = f'default channel "{package.default_channel}" not found in channels list'
        yield Issue(told, f"Set defaultChannel to one of {', '.join(names)}, or add that channel.")


def _channel_faults(channel: ChannelBlob, bundles: set[str], compat: Compat) -> Iterator[CatalogFinding]:
    if not channel.name:
        yield blob_finding(channel, Issue("channel name must not be empty", "Give the channel a name."))
    if not channel.entries:
        advice = "Add entries, or remove the channel."
        yield blob_finding(channel, Issue("channel must contain at least one bundle", advice))
    for name, count in Counter(entry.name for entry in channel.entries).items():
        if count > 1:
            yield blob_finding(channel, Issue(f'duplicate entry "{name}"', "Merge what its entries say into one."))
    for entry in channel.entries:
        for told in _entry_faults(entry, bundles):
            yield blob_finding(channel, told, entry.name)
    if problem := check_graph(channel.entries, stop_at_skipped=compat is Compat.NEWEST):
        yield blob_finding(channel, Issue(str(problem), problem.advice))


def _entry_faults(entry: EntryBlob, bundles: set[str]) -> Iterator[Issue]:
    if not entry.name:
        yield Issue("entry name must not be empty", "Name the bundle that it stands for.")
    elif entry.name not in bundles:
        advice = f"Add the {BUNDLE} document of this name, or take the entry out of the channel."
        yield Issue("no olm.bundle blob found for the entry", advice)
    for number, skip in enumerate(entry.skips):
        if not skip:
            yield Issue(f"skip[{number}] is empty", "Take it out.")
    if entry.skip_range:
        try:
            VersionRange.parse(entry.skip_range)
        except ValueError as error:
            told = f'invalid skipRange "{entry.skip_range}": {error}'
            yield Issue(told, 'Write a range such as ">=1.0.0 <1.2.0".', since="1.69")


def _bundle_faults(parts: PackageBlobs) -> Iterator[CatalogFinding]:
    placed = {entry.name for channel in parts.channels for entry in channel.entries}
    versions: defaultdict[str, dict[str, BundleBlob]] = defaultdict(dict)
    for bundle in parts.bundles:
        for told in check_bundle(bundle):
            yield blob_finding(bundle, told)
        if bundle.name not in placed:
            advice = "Add an entry for it to a channel, or remove the bundle."
            yield blob_finding(bundle, Issue("not found in any channel entries", advice))
        versions[version_with_release(bundle)].setdefault(bundle.name, bundle)
    for version, same in versions.items():
        if version and len(same) > 1:
            *_, last = same.values()
            names = ", ".join(sorted(same))
            message = f"duplicate versions found in bundles: {version} is that of {names}"
            yield blob_finding(last, Issue(message, "Give each a version of its own, or remove one.", since="1.47"))


def _deprecation_faults(blob: DeprecationsBlob, parts: PackageBlobs) -> Iterator[Issue]:
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(blob.entries):
        found = list(_reference_faults(entry, parts))
        if not entry.message:
            found.append(("message must be set", "Say why, and what to use instead."))
        if (entry.schema, entry.name) in seen:
            found.append((f"duplicate deprecation entry of {entry.schema} {entry.name}".rstrip(), "Keep one of them."))
        seen.add((entry.schema, entry.name))
        for message, advice in found:
            yield Issue(f"entries[{number}]: {message}", advice, since="1.32")


def _reference_faults(entry: Deprecation, parts: PackageBlobs) -> Iterator[tuple[str, str]]:
    """What is wrong with what an entry refers to."""
    known: Mapping[str, Sequence[ChannelBlob | BundleBlob]] = {CHANNEL: parts.channels, BUNDLE: parts.bundles}
    kind = _kind(entry.schema)
    if entry.schema == PACKAGE:
        if entry.name:
            yield f'package name must be empty (specified "{entry.name}")', "Leave it out: this package is meant."
    elif entry.schema not in known:
        told = f'cannot deprecate "{entry.schema}": object schema unknown' if entry.schema else "schema must be set"
        yield told, f"Write {PACKAGE}, {CHANNEL} or {BUNDLE}."
    elif all(blob.name != entry.name for blob in known[entry.schema]):
        yield f'cannot deprecate {kind} "{entry.name}": {kind} not found', "Correct the name, or take the entry out."
