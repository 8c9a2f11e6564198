"""The rules that a file-based catalog must keep to be listed, served or built upon, those of the newest reference.

What is wrong is said in the words that the reference has for it, as far as it has any, since people search for them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.bundle.versions import VersionRange
from opmkit.index.fbc.base64text import from_base64
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE
from opmkit.index.fbc.check.bundle import bundle_faults, full_version
from opmkit.index.fbc.check.graph import graph_fault
from opmkit.index.fbc.compat import Dialect
from opmkit.index.fbc.display_name import display_name
from opmkit.index.fbc.findings import Fault, Subject, Told, refuse
from opmkit.index.fbc.model import Catalog, Channel, Package

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


def check_blobs(blobs: Blobs, dialect: Dialect = Dialect.NEWEST) -> tuple[Fault, ...]:
    """All that is wrong with a catalog by the rules of a release of the reference, package by package."""
    if dialect is Dialect.NEWEST:
        return tuple(fault for package in packages_of(blobs) for fault in _package_faults(package, dialect))
    known = replace(blobs, deprecations=())  # which are like any other document there
    faults = (fault for package in packages_of(known) for fault in _package_faults(package, dialect))
    return tuple(fault for fault in faults if not fault.since)


def valid_catalog(blobs: Blobs, dialect: Dialect = Dialect.NEWEST) -> Catalog:
    """The catalog that blobs make, by name throughout.

    Raises:
        InvalidCatalog: with all that is wrong by the rules of that release.
    """
    refuse(check_blobs(blobs, dialect))
    return Catalog({package.name: _package(package) for package in packages_of(blobs)})


def _package(parts: PackageBlobs) -> Package:
    (blob,) = parts.packages
    channels = {
        channel.name: Channel(channel.name, {entry.name: entry for entry in channel.entries})
        for channel in sorted(parts.channels, key=lambda channel: channel.name)
    }
    bundles = {bundle.name: bundle for bundle in parts.bundles}
    (head,) = channels[blob.default_channel].heads
    return Package(blob.name, blob.default_channel, channels, bundles, display_name(bundles[head]))


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


def packages_of(blobs: Blobs) -> list[PackageBlobs]:
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


def _package_faults(parts: PackageBlobs, dialect: Dialect) -> Iterator[Fault]:
    if not parts.name:
        yield from _nameless(parts)
        return
    if not parts.packages:
        yield _undefined(parts)
    for package in parts.packages[:1]:
        for told in _definition_faults(package, parts):
            yield fault_of(package, told)
    for blobs in (parts.packages, parts.channels, parts.bundles, parts.deprecations):
        yield from _twice(blobs)
    names = {bundle.name for bundle in parts.bundles}
    for channel in parts.channels:
        yield from _channel_faults(channel, names, dialect)
    yield from _bundle_faults(parts)
    for deprecations in parts.deprecations:
        for told in _deprecation_faults(deprecations, parts):
            yield fault_of(deprecations, told)


def fault_of(blob: PackagePart, told: Told, entry: str = "") -> Fault:
    """A fault of a blob, or of an entry of a channel."""
    channel = blob.name if blob.schema == CHANNEL else ""
    bundle = blob.name if blob.schema == BUNDLE else entry
    return Fault(blob.place, told.message, Subject(blob.package, channel, bundle), told.advice, told.since)


def _nameless(parts: PackageBlobs) -> Iterator[Fault]:
    for package in parts.packages:
        yield fault_of(package, Told("package name must not be empty", "Give the package a name."))
    for blob in parts.belonging:
        yield fault_of(
            blob, Told("package name must be set", f"Say which package the {_kind(blob.schema)} belongs to.")
        )


def _kind(schema: str) -> str:
    return schema.removeprefix("olm.").removesuffix("s")


def _undefined(parts: PackageBlobs) -> Fault:
    kinds = Counter(_kind(blob.schema) for blob in parts.belonging)
    told = ", ".join(f"{count} {kind}" + "s" * (count > 1) for kind, count in kinds.items())
    advice = f"Add a document with schema: {PACKAGE}, name: {parts.name} and a defaultChannel, or correct the name."
    return Fault(parts.belonging[0].place, f'unknown package "{parts.name}", which has {told}', advice=advice)


def _twice(blobs: Iterable[PackagePart]) -> Iterator[Fault]:
    """Those of a schema that have the name of one before."""
    first: dict[str, PackagePart] = {}
    for blob in blobs:
        known = first.setdefault(blob.name, blob)
        if known is not blob:
            since = "1.32" if blob.schema == DEPRECATIONS else ""
            told = f"duplicate {_kind(blob.schema)}: the first is at {known.place}"
            yield fault_of(blob, Told(told, "Keep one of them.", since))


def _definition_faults(package: PackageBlob, parts: PackageBlobs) -> Iterator[Told]:
    names = sorted({channel.name for channel in parts.channels if channel.name})
    for problem in dns1123_label(package.name):
        yield Told(f"invalid package name: {problem}", "Rename it in all its documents.", since="1.41")
    if package.icon and from_base64(package.icon.data) is None:
        yield Told("icon.base64data is not encoded as base64", "Encode the image with base64, or leave out the icon.")
    if not parts.channels:
        yield Told("package must contain at least one channel", f"Add a document with schema: {CHANNEL}.")
    if not package.default_channel:
        yield Told("default channel must be set", f"Set defaultChannel to one of: {', '.join(names)}.")
    elif package.default_channel not in names and names:
        told = f'default channel "{package.default_channel}" not found in channels list'
        yield Told(told, f"Set defaultChannel to one of {', '.join(names)}, or add that channel.")


def _channel_faults(channel: ChannelBlob, bundles: set[str], dialect: Dialect) -> Iterator[Fault]:
    if not channel.name:
        yield fault_of(channel, Told("channel name must not be empty", "Give the channel a name."))
    if not channel.entries:
        advice = "Add entries, or remove the channel."
        yield fault_of(channel, Told("channel must contain at least one bundle", advice))
    for name, count in Counter(entry.name for entry in channel.entries).items():
        if count > 1:
            yield fault_of(channel, Told(f'duplicate entry "{name}"', "Merge what its entries say into one."))
    for entry in channel.entries:
        for told in _entry_faults(entry, bundles):
            yield fault_of(channel, told, entry.name)
    if problem := graph_fault(channel.entries, stop_at_skipped=dialect is Dialect.NEWEST):
        yield fault_of(channel, Told(str(problem), problem.advice))


def _entry_faults(entry: EntryBlob, bundles: set[str]) -> Iterator[Told]:
    if not entry.name:
        yield Told("entry name must not be empty", "Name the bundle that it stands for.")
    elif entry.name not in bundles:
        advice = f"Add the {BUNDLE} document of this name, or take the entry out of the channel."
        yield Told("no olm.bundle blob found for the entry", advice)
    for number, skip in enumerate(entry.skips):
        if not skip:
            yield Told(f"skip[{number}] is empty", "Take it out.")
    if entry.skip_range:
        try:
            VersionRange.parse(entry.skip_range)
        except ValueError as error:
            told = f'invalid skipRange "{entry.skip_range}": {error}'
            yield Told(told, 'Write a range such as ">=1.0.0 <1.2.0".', since="1.69")


def _bundle_faults(parts: PackageBlobs) -> Iterator[Fault]:
    placed = {entry.name for channel in parts.channels for entry in channel.entries}
    versions: defaultdict[str, dict[str, BundleBlob]] = defaultdict(dict)
    for bundle in parts.bundles:
        for told in bundle_faults(bundle):
            yield fault_of(bundle, told)
        if bundle.name not in placed:
            advice = "Add an entry for it to a channel, or remove the bundle."
            yield fault_of(bundle, Told("not found in any channel entries", advice))
        versions[full_version(bundle)].setdefault(bundle.name, bundle)
    for version, same in versions.items():
        if version and len(same) > 1:
            *_, last = same.values()
            names = ", ".join(sorted(same))
            message = f"duplicate versions found in bundles: {version} is that of {names}"
            yield fault_of(last, Told(message, "Give each a version of its own, or remove one.", since="1.47"))


def _deprecation_faults(blob: DeprecationsBlob, parts: PackageBlobs) -> Iterator[Told]:
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(blob.entries):
        found = list(_reference_faults(entry, parts))
        if not entry.message:
            found.append(("message must be set", "Say why, and what to use instead."))
        if (entry.schema, entry.name) in seen:
            found.append((f"duplicate deprecation entry of {entry.schema} {entry.name}".rstrip(), "Keep one of them."))
        seen.add((entry.schema, entry.name))
        for message, advice in found:
            yield Told(f"entries[{number}]: {message}", advice, since="1.32")


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
