"""What breaks no rule of file-based catalogs, but is hardly meant, or does harm elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.base64text import from_base64
from opmkit.index.fbc.check.bundle import stated_version
from opmkit.index.fbc.check.catalog import fault_of, packages_of
from opmkit.index.fbc.check.graph import graph_fault
from opmkit.index.fbc.findings import Told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from semver import Version

    from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.findings import Fault


def cautions(blobs: Blobs) -> tuple[Fault, ...]:
    """All that is odd in a catalog, package by package; what breaks a rule is not told again."""
    return tuple(caution for package in packages_of(blobs) for caution in _package_cautions(package))


def _package_cautions(parts: PackageBlobs) -> Iterator[Fault]:
    for package in parts.packages:
        for told in _icon_cautions(package):
            yield fault_of(package, told)
    versions = dict(_versions(parts))
    for channel in parts.channels:
        for told in _graph_cautions(channel):
            yield fault_of(channel, told)
        for entry in channel.entries:
            for told in (*_edge_cautions(entry, versions), *_range_cautions(entry, versions)):
                yield fault_of(channel, told, entry.name)


def _versions(parts: PackageBlobs) -> Iterator[tuple[str, Version]]:
    for bundle in parts.bundles:
        try:
            yield bundle.name, strict_version(stated_version(bundle)[0])
        except ValueError:
            continue


def _icon_cautions(package: PackageBlob) -> Iterator[Told]:
    icon = package.icon
    if icon is None or from_base64(icon.data) is None:
        return
    try:
        problem = image_problem(icon_data(icon.data), icon.media_type)
    except ValueError as error:
        problem = f"the data {error}"
    if problem:
        yield Told(f"icon: {problem}", "Consoles will not show it: encode the image anew, or correct its mediatype.")


def _graph_cautions(channel: ChannelBlob) -> Iterator[Told]:
    if graph_fault(channel.entries) is None and (older := graph_fault(channel.entries, stop_at_skipped=False)):
        yield Told(f"releases of opm before 1.58 refuse it: {older}", older.advice)


def _edge_cautions(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[Told]:
    if entry.name in (entry.replaces, *entry.skips):
        yield Told("the entry replaces or skips itself", "Take its own name out.")
    if len(set(entry.skips)) < len(entry.skips):
        yield Told("the entry skips the same twice", "Keep each name once.")
    own = versions.get(entry.name)
    for verb, name in (("replaces", entry.replaces), *(("skips", skip) for skip in entry.skips)):
        other = versions.get(name)
        if own and other and other > own:
            yield Told(f"it {verb} {name}, whose version is higher: {other}", "Turn the edge round.")


def _range_cautions(entry: EntryBlob, versions: Mapping[str, Version]) -> Iterator[Told]:
    try:
        parsed = VersionRange.parse(entry.skip_range)
    except ValueError:
        return
    shown = f'skipRange "{entry.skip_range}"'
    if parsed.dropped:
        told = f"{shown}: {' '.join(parsed.dropped)} is passed over"
        yield Told(told, 'Write a range such as ">=1.0.0 <1.2.0".')
    if not parsed.is_complete:
        yield Told(f"{shown}: there is nothing between two ||, on which resolvers break down", "Take out one of them.")
    own = versions.get(entry.name)
    if own and own in parsed:
        yield Told(f"{shown} has the entry's own version {own} in it", f"Let it end below that: <{own}.")
