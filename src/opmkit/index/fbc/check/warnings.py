"""Warnings for valid but suspicious file-based catalogs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Severity
from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import group_by_package, locate
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.findings import CatalogFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from semver import Version

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs


def find_warnings(blobs: Blobs) -> tuple[CatalogFinding, ...]:
    """Return the warnings of a catalog, package by package; errors are not repeated."""
    findings = (finding for package in group_by_package(blobs) for finding in _check_package(package))
    return tuple(replace(finding, severity=Severity.WARNING) for finding in findings)


def _check_package(package: PackageBlobs) -> Iterator[CatalogFinding]:
    for definition in package.packages:
        for finding in _check_icon(definition):
            yield locate(finding, definition)
    versions = dict(_versions(package))
    for channel in package.channels:
        for finding in _check_graph(channel):
            yield locate(finding, channel)
        for entry in channel.entries:
            for finding in (*_check_edges(entry, versions), *_check_range(entry, versions)):
                yield locate(finding, channel, entry.name)


def _versions(package: PackageBlobs) -> Iterator[tuple[str, Version]]:
    """Yield the names and versions of the bundles that have a valid version."""
    for bundle in package.bundles:
        try:
            yield bundle.name, strict_version(bundle_version(bundle))
        except ValueError:
            continue


def _check_icon(definition: PackageBlob) -> Iterator[CatalogFinding]:
    icon = definition.icon
    if icon is None or decode_base64(icon.data) is None:
        return
    try:
        problem = image_problem(icon_data(icon.data), icon.media_type)
    except ValueError as error:
        problem = f"the data {error}"
    if problem:
        hint = "Encode the image again, or correct the mediatype; otherwise consoles do not show the icon."
        yield CatalogFinding(f"icon: {problem}", hint=hint, rule="FBC-ICON-IMAGE")


def _check_graph(channel: ChannelBlob) -> Iterator[CatalogFinding]:
    if check_graph(channel.entries) is None and (older := check_graph(channel.entries, stop_at_skipped=False)):
        yield CatalogFinding(
            f"invalid for releases of opm before 1.58: {older}", hint=older.hint, rule="FBC-GRAPH-BEFORE-1.58"
        )


def _check_edges(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[CatalogFinding]:
    if entry.name in (entry.replaces, *entry.skips):
        yield CatalogFinding("the entry replaces or skips itself", hint="Remove its own name.", rule="FBC-ENTRY-SELF")
    if len(set(entry.skips)) < len(entry.skips):
        yield CatalogFinding("duplicate names in skips", hint="Keep each name once.", rule="FBC-SKIPS-DUPLICATE")
    version = versions.get(entry.name)
    for verb, name in (("replaces", entry.replaces), *(("skips", skip) for skip in entry.skips)):
        other = versions.get(name)
        if version and other and other > version:
            yield CatalogFinding(
                f"{verb} {name}, which has the higher version {other}", hint="Reverse the edge.", rule="FBC-ENTRY-ORDER"
            )


def _check_range(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[CatalogFinding]:
    try:
        parsed = VersionRange.parse(entry.skip_range)
    except ValueError:
        return
    subject = f'skipRange "{entry.skip_range}"'
    if parsed.dropped:
        message = f"{subject}: {' '.join(parsed.dropped)} is ignored"
        yield CatalogFinding(message, hint='Write a range such as ">=1.0.0 <1.2.0".', rule="FBC-SKIPRANGE-IGNORED")
    if not parsed.is_complete:
        message = f"{subject}: empty alternative next to ||, which crashes resolvers"
        yield CatalogFinding(message, hint="Remove the extra ||.", rule="FBC-SKIPRANGE-IGNORED")
    version = versions.get(entry.name)
    if version and version in parsed:
        message = f"{subject} contains the entry's own version {version}"
        yield CatalogFinding(message, hint=f"End the range before it: <{version}.", rule="FBC-SKIPRANGE-SELF")
