"""What breaks no rule of file-based catalogs, but is hardly meant, or does harm elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.base64text import decode_base64
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import blob_finding, group_by_package
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.findings import Issue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from semver import Version

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.findings import CatalogFinding


def find_warnings(blobs: Blobs) -> tuple[CatalogFinding, ...]:
    """All that is odd in a catalog, package by package; what breaks a rule is not told again."""
    return tuple(caution for package in group_by_package(blobs) for caution in _package_cautions(package))


def _package_cautions(parts: PackageBlobs) -> Iterator[CatalogFinding]:
    for package in parts.packages:
        for told in _icon_cautions(package):
            yield blob_finding(package, told)
    versions = dict(_versions(parts))
    for channel in parts.channels:
        for told in _graph_cautions(channel):
            yield blob_finding(channel, told)
        for entry in channel.entries:
            for told in (*_edge_cautions(entry, versions), *_range_cautions(entry, versions)):
                yield blob_finding(channel, told, entry.name)


def _versions(parts: PackageBlobs) -> Iterator[tuple[str, Version]]:
    for bundle in parts.bundles:
        try:
            yield bundle.name, strict_version(bundle_version(bundle))
        except ValueError:
            continue


def _icon_cautions(package: PackageBlob) -> Iterator[Issue]:
    icon = package.icon
    if icon is None or decode_base64(icon.data) is None:
        return
    try:
        problem = image_problem(icon_data(icon.data), icon.media_type)
    except ValueError as error:
        problem = f"the data {error}"
    if problem:
        yield Issue(f"icon: {problem}", "Consoles will not show it: encode the image anew, or correct its mediatype.")


def _graph_cautions(channel: ChannelBlob) -> Iterator[Issue]:
    if check_graph(channel.entries) is None and (older := check_graph(channel.entries, stop_at_skipped=False)):
        yield Issue(f"releases of opm before 1.58 refuse it: {older}", older.advice)


def _edge_cautions(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[Issue]:
    if entry.name in (entry.replaces, *entry.skips):
        yield Issue("the entry replaces or skips itself", "Take its own name out.")
    if len(set(entry.skips)) < len(entry.skips):
        yield Issue("the entry skips the same twice", "Keep each name once.")
    own = versions.get(entry.name)
    for verb, name in (("replaces", entry.replaces), *(("skips", skip) for skip in entry.skips)):
        other = versions.get(name)
        if own and other and other > own:
            yield Issue(f"it {verb} {name}, whose version is higher: {other}", "Turn the edge round.")


def _range_cautions(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[Issue]:
    try:
        parsed = VersionRange.parse(entry.skip_range)
    except ValueError:
        return
    shown = f'skipRange "{entry.skip_range}"'
    if parsed.dropped:
        told = f"{shown}: {' '.join(parsed.dropped)} is passed over"
        yield Issue(told, 'Write a range such as ">=1.0.0 <1.2.0".')
    if not parsed.is_complete:
        yield Issue(f"{shown}: there is nothing between two ||, on which resolvers break down", "Take out one of them.")
    own = versions.get(entry.name)
    if own and own in parsed:
        yield Issue(f"{shown} has the entry's own version {own} in it", f"Let it end below that: <{own}.")
