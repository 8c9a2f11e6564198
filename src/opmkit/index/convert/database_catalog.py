"""Loading of index databases as catalogs."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import (
    BUNDLE_OBJECT,
    DEPRECATED,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    EntryBlob,
    PackageBlob,
)
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.from_bundle import parse_json
from opmkit.index.fbc.model import Catalog, Package
from opmkit.index.sqlite import rows as stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.sqlite import IndexDatabase


def load_catalog(database: IndexDatabase) -> Catalog:
    """Load the catalog of an index database, sorted by name.

    Deprecated bundles are omitted, and so are entries whose bundle does not exist.

    Raises:
        InvalidCatalog: the catalog is invalid by the rules of operator-registry 1.26.
    """
    catalog = Catalog.from_blobs(_Rows.read(database).to_blobs(), Compat.OPM_1_26)
    named = {
        name: replace(package, display_name=_display_name(database, package))
        for name, package in catalog.packages.items()
    }
    return Catalog(named)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of bundles and channels, without manifests."""

    bundles: Mapping[str, stored.BundleRow]
    properties: Mapping[str, Sequence[stored.PropertyRow]]
    channels: Sequence[stored.ChannelRow]
    entries: Mapping[tuple[str, str], Sequence[EntryBlob]]

    @classmethod
    def read(cls, database: IndexDatabase) -> _Rows:
        properties = properties_by_bundle(stored.property_rows(database))
        bundles = {
            row.name: row
            for row in stored.bundle_rows(database)
            if all(prop.type != DEPRECATED for prop in properties[row.name])
        }
        return cls(bundles, properties, stored.channel_rows(database), _entries(database, bundles))

    def to_blobs(self) -> Blobs:
        """Convert the rows; raise InvalidCatalog for properties that are not JSON."""
        findings: list[CatalogFinding] = []
        defaults = {row.package: row.default_channel for row in self.channels}
        channels = [
            ChannelBlob(row.channel, row.package, tuple(self.entries[row.package, row.channel]))
            for row in self.channels
        ]
        members = sorted({(channel.package, entry.name) for channel in channels for entry in channel.entries})
        bundles = [
            BundleBlob(name, package, self.bundles[name].image, tuple(self._properties(package, name, findings)))
            for package, name in members
        ]
        raise_findings(findings)
        return Blobs(tuple(map(PackageBlob, defaults, defaults.values())), tuple(channels), tuple(bundles))

    def _properties(self, package: str, name: str, findings: list[CatalogFinding]) -> Iterator[BlobProperty]:
        for number, row in enumerate(self.properties[name]):
            try:
                yield BlobProperty(row.type, parse_json(row.value))
            except ValueError as error:
                message = f'parse property[{number}] of type "{row.type}": {error}'
                findings.append(CatalogFinding(message, package=package, bundle=name))
        if self.bundles[name].has_manifests:
            # checks only need to know that the bundle has objects
            yield BlobProperty(BUNDLE_OBJECT, {"data": ""})


def properties_by_bundle(rows: Iterable[stored.PropertyRow]) -> defaultdict[str, list[stored.PropertyRow]]:
    """Group properties or dependencies by bundle."""
    grouped: defaultdict[str, list[stored.PropertyRow]] = defaultdict(list)
    for row in rows:
        grouped[row.bundle].append(row)
    return grouped


def _entries(
    database: IndexDatabase, bundles: Mapping[str, stored.BundleRow]
) -> Mapping[tuple[str, str], list[EntryBlob]]:
    """Return the entries of each (package, channel), sorted by name.

    The targets of rows on the chain from a head are replaced, those of other rows are skipped.
    """
    rows = stored.entry_rows(database)
    names = {row.entry_id: row.bundle for row in rows}
    on_chain = _chain_entries(rows)
    replaced: dict[tuple[str, str, str], str] = {}
    skipped: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        key = (row.package, row.channel, row.bundle)
        target = names.get(row.replaces) if row.replaces is not None else None
        if target is None:
            continue
        if row.entry_id in on_chain:
            replaced[key] = max(replaced.get(key, ""), target)
        else:
            skipped[key].append(target)
    entries: defaultdict[tuple[str, str], list[EntryBlob]] = defaultdict(list)
    for key in sorted({(row.package, row.channel, row.bundle) for row in rows if row.bundle in bundles}):
        package, channel, name = key
        entry = EntryBlob(name, replaced.get(key, ""), tuple(skipped[key]), bundles[name].skip_range)
        entries[package, channel].append(entry)
    return entries


def _chain_entries(rows: Sequence[stored.EntryRow]) -> set[int]:
    """Return the ids of the entries that can be reached from the heads, which have the smallest depth."""
    targets = {row.entry_id: row.replaces for row in rows}
    least = min((row.depth for row in rows), default=0)
    reached: set[int] = set()
    for row in rows:
        entry: int | None = row.entry_id if row.depth == least else None
        while entry is not None and entry not in reached:
            reached.add(entry)
            entry = targets.get(entry)
    return reached


def _display_name(database: IndexDatabase, package: Package) -> str:
    name = head_spec(database, package).get("displayName", "")
    return name if isinstance(name, str) else ""


def head_spec(database: IndexDatabase, package: Package) -> Mapping[str, JsonValue]:
    """Return the ClusterServiceVersion spec of the default channel's head, empty if it is not stored."""
    channel = package.channels.get(package.default_channel)
    if channel is None or len(channel.heads) != 1:
        return {}
    try:
        spec = json.loads(stored.cluster_service_version(database, channel.heads[0]) or b"{}")["spec"]
    except (ValueError, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}
