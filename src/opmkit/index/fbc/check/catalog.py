"""Rules that a file-based catalog must satisfy to be listed, served or extended, by release of Go opm.

Messages use the wording of Go opm where it has one, since people search for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.bundle.versions import VersionRange
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE
from opmkit.index.fbc.check.bundle import bundle_version, check_bundle, version_with_release
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.findings import CatalogFinding

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


def check_blobs(blobs: Blobs, compat: CatalogCompat = CatalogCompat.NEWEST) -> tuple[CatalogFinding, ...]:
    """Return the errors of a catalog by the rules of a release of Go opm, package by package."""
    if not compat.has(ReleaseChange.DEPRECATIONS):
        blobs = replace(blobs, deprecations=())  # the release does not know their schema
    findings = (finding for package in group_by_package(blobs) for finding in _check_package(package, compat))
    return tuple(finding for finding in findings if compat.has_rule(finding.since))


class PackageBlobs(Struct, frozen=True):
    """The blobs of one package."""

    name: str
    packages: list[PackageBlob] = []
    channels: list[ChannelBlob] = []
    bundles: list[BundleBlob] = []
    deprecations: list[DeprecationsBlob] = []

    @property
    def members(self) -> tuple[ChannelBlob | BundleBlob | DeprecationsBlob, ...]:
        """Return all blobs except `olm.package`."""
        return (*self.channels, *self.bundles, *self.deprecations)


def group_by_package(blobs: Blobs) -> list[PackageBlobs]:
    """Group the blobs of OLM's schemas by package, sorted by name."""
    by_name: dict[str, PackageBlobs] = {}

    def get(name: str) -> PackageBlobs:
        return by_name.setdefault(name, PackageBlobs(name))

    for package in blobs.packages:
        get(package.name).packages.append(package)
    for channel in blobs.channels:
        get(channel.package).channels.append(channel)
    for bundle in blobs.bundles:
        get(bundle.package).bundles.append(bundle)
    for deprecations in blobs.deprecations:
        get(deprecations.package).deprecations.append(deprecations)
    return [by_name[name] for name in sorted(by_name)]


def locate(finding: CatalogFinding, blob: PackagePart, entry: str = "") -> CatalogFinding:
    """Add the location and the subject to a finding about a blob, or about an entry of a channel."""
    channel = blob.name if blob.schema == CHANNEL else ""
    bundle = blob.name if blob.schema == BUNDLE else entry
    return replace(finding, package=blob.package, channel=channel, bundle=bundle).at(blob.location)


def _check_package(package: PackageBlobs, compat: CatalogCompat) -> Iterator[CatalogFinding]:
    if not package.name:
        yield from _check_unnamed(package)
        return
    if not package.packages:
        yield _undefined_package(package)
    for definition in package.packages[:1]:
        for finding in _check_definition(definition, package):
            yield locate(finding, definition)
    for blobs in (package.packages, package.channels, package.bundles, package.deprecations):
        yield from _check_duplicates(blobs)
    names = {bundle.name for bundle in package.bundles}
    for channel in package.channels:
        yield from _check_channel(channel, names, compat)
    yield from _check_bundles(package, compat)
    for deprecations in package.deprecations:
        for finding in _check_deprecations(deprecations, package):
            yield locate(finding, deprecations)


def _check_unnamed(package: PackageBlobs) -> Iterator[CatalogFinding]:
    for definition in package.packages:
        yield locate(
            CatalogFinding(
                "package name must not be empty", hint="Set the name of the package.", rule="FBC-PACKAGE-NAME"
            ),
            definition,
        )
    for blob in package.members:
        yield locate(
            CatalogFinding(
                "package name must be set",
                hint=f"Set the package of the {_noun(blob.schema)}.",
                rule="FBC-PACKAGE-MISSING",
            ),
            blob,
        )


def _noun(schema: str) -> str:
    return schema.removeprefix("olm.").removesuffix("s")


def _undefined_package(package: PackageBlobs) -> CatalogFinding:
    counts = Counter(_noun(blob.schema) for blob in package.members)
    members = ", ".join(f"{count} {noun}" + "s" * (count > 1) for noun, count in counts.items())
    message = f'unknown package "{package.name}", which has {members}'
    hint = f"Add a document with schema: {PACKAGE}, name: {package.name} and a defaultChannel, or correct the name."
    return CatalogFinding(message, hint=hint, rule="FBC-PACKAGE-UNKNOWN").at(package.members[0].location)


def _check_duplicates(blobs: Iterable[PackagePart]) -> Iterator[CatalogFinding]:
    """Yield a finding for each blob of a schema with the name of an earlier one."""
    by_name: dict[str, PackagePart] = {}
    for blob in blobs:
        first = by_name.setdefault(blob.name, blob)
        if first is not blob:
            since = "1.32" if blob.schema == DEPRECATIONS else ""
            message = f"duplicate {_noun(blob.schema)}: the first is at {first.location}"
            yield locate(CatalogFinding(message, hint="Keep one of them.", since=since, rule="FBC-DUPLICATE"), blob)


def _check_definition(definition: PackageBlob, package: PackageBlobs) -> Iterator[CatalogFinding]:
    channels = sorted({channel.name for channel in package.channels if channel.name})
    for problem in dns1123_label(definition.name):
        yield CatalogFinding(
            f"invalid package name: {problem}",
            hint="Rename it in all its documents.",
            since="1.41",
            rule="FBC-PACKAGE-NAME",
        )
    if definition.icon and decode_base64(definition.icon.data) is None:
        hint = "Encode the image with base64, or remove the icon."
        yield CatalogFinding("icon.base64data is not valid base64", hint=hint, rule="FBC-ICON-DATA")
    if not package.channels:
        yield CatalogFinding(
            "package must contain at least one channel",
            hint=f"Add a document with schema: {CHANNEL}.",
            rule="FBC-PACKAGE-EMPTY",
        )
    if not definition.default_channel:
        yield CatalogFinding(
            "default channel must be set",
            hint=f"Set defaultChannel to one of: {', '.join(channels)}.",
            rule="FBC-DEFAULT-CHANNEL",
        )
    elif definition.default_channel not in channels and channels:
        message = f'default channel "{definition.default_channel}" not found in channels list'
        yield CatalogFinding(
            message,
            hint=f"Set defaultChannel to one of {', '.join(channels)}, or add that channel.",
            rule="FBC-DEFAULT-CHANNEL",
        )


def _check_channel(channel: ChannelBlob, bundles: set[str], compat: CatalogCompat) -> Iterator[CatalogFinding]:
    if not channel.name:
        yield locate(
            CatalogFinding(
                "channel name must not be empty", hint="Set the name of the channel.", rule="FBC-CHANNEL-NAME"
            ),
            channel,
        )
    if not channel.entries:
        hint = "Add entries, or remove the channel."
        yield locate(
            CatalogFinding("channel must contain at least one bundle", hint=hint, rule="FBC-CHANNEL-EMPTY"), channel
        )
    for name, count in Counter(entry.name for entry in channel.entries).items():
        if count > 1:
            yield locate(
                CatalogFinding(f'duplicate entry "{name}"', hint="Merge the entries.", rule="FBC-ENTRY-DUPLICATE"),
                channel,
            )
    for number, entry in enumerate(channel.entries):
        for finding in _check_entry(entry, bundles):
            yield replace(locate(finding, channel, entry.name), path=("entries", number))
    if problem := check_graph(channel.entries, stop_at_skipped=compat.has(ReleaseChange.CHAIN_ENDS_AT_SKIPPED)):
        yield locate(CatalogFinding(str(problem), hint=problem.hint, rule="FBC-GRAPH"), channel)


def _check_entry(entry: EntryBlob, bundles: set[str]) -> Iterator[CatalogFinding]:
    if not entry.name:
        yield CatalogFinding("entry name must not be empty", hint="Set the name of a bundle.", rule="FBC-ENTRY-NAME")
    elif entry.name not in bundles:
        hint = f"Add the {BUNDLE} document of this name, or remove the entry from the channel."
        yield CatalogFinding("no olm.bundle blob found for the entry", hint=hint, rule="FBC-ENTRY-BUNDLE")
    for number, skip in enumerate(entry.skips):
        if not skip:
            yield CatalogFinding(f"skip[{number}] is empty", hint="Remove it.", rule="FBC-SKIPS-EMPTY")
    if entry.skip_range:
        try:
            VersionRange.parse(entry.skip_range)
        except ValueError as error:
            message = f'invalid skipRange "{entry.skip_range}": {error}'
            yield CatalogFinding(
                message, hint='Write a range such as ">=1.0.0 <1.2.0".', since="1.69", rule="FBC-SKIPRANGE"
            )


def _check_bundles(package: PackageBlobs, compat: CatalogCompat) -> Iterator[CatalogFinding]:
    version = version_with_release if compat.has(ReleaseChange.RELEASES) else bundle_version
    entries = {entry.name for channel in package.channels for entry in channel.entries}
    by_version: defaultdict[str, dict[str, BundleBlob]] = defaultdict(dict)
    for bundle in package.bundles:
        for finding in check_bundle(bundle):
            yield locate(finding, bundle)
        if bundle.name not in entries:
            hint = "Add an entry for it to a channel, or remove the bundle."
            yield locate(
                CatalogFinding("not found in any channel entries", hint=hint, rule="FBC-BUNDLE-STRANDED"), bundle
            )
        by_version[version(bundle)].setdefault(bundle.name, bundle)
    for text, bundles in by_version.items():
        if text and len(bundles) > 1:
            *_, last = bundles.values()
            message = f"duplicate versions found in bundles: {text} is the version of {', '.join(sorted(bundles))}"
            yield locate(
                CatalogFinding(
                    message,
                    hint="Give each its own version, or remove one.",
                    since="1.47",
                    rule="FBC-VERSION-DUPLICATE",
                ),
                last,
            )


def _check_deprecations(blob: DeprecationsBlob, package: PackageBlobs) -> Iterator[CatalogFinding]:
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(blob.entries):
        problems = list(_check_reference(entry, package))
        if not entry.message:
            problems.append(("message must be set", "Give the reason and the replacement."))
        if (entry.schema, entry.name) in seen:
            message = f"duplicate deprecation entry of {entry.schema} {entry.name}".rstrip()
            problems.append((message, "Keep one of them."))
        seen.add((entry.schema, entry.name))
        for message, hint in problems:
            text, path = f"entries[{number}]: {message}", ("entries", number)
            yield CatalogFinding(text, hint=hint, since="1.32", rule="FBC-DEPRECATION", path=path)


def _check_reference(entry: Deprecation, package: PackageBlobs) -> Iterator[tuple[str, str]]:
    """Yield messages and hints about the reference of a deprecation."""
    blobs: Mapping[str, Sequence[ChannelBlob | BundleBlob]] = {CHANNEL: package.channels, BUNDLE: package.bundles}
    noun = _noun(entry.schema)
    if entry.schema == PACKAGE:
        if entry.name:
            yield f'package name must be empty (specified "{entry.name}")', "Remove the name."
    elif entry.schema not in blobs:
        unknown = f'cannot deprecate "{entry.schema}": object schema unknown'
        yield unknown if entry.schema else "schema must be set", f"Write {PACKAGE}, {CHANNEL} or {BUNDLE}."
    elif all(blob.name != entry.name for blob in blobs[entry.schema]):
        yield f'cannot deprecate {noun} "{entry.name}": {noun} not found', "Correct the name, or remove the entry."
