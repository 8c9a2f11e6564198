"""Reading an index database as a catalog."""

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
from opmkit.index.sqlite import catalog as stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.sqlite import IndexDatabase


def load_catalog(database: IndexDatabase) -> Catalog:
    """The catalog that an index database holds, with all names in order.

    Deprecated bundles are left out, and so are entries whose bundle the database does not have.

    Raises:
        InvalidCatalog: it breaks the rules that the releases of the reference that write such databases have.
    """
    catalog = Catalog.from_blobs(_Rows.of(database).blobs(), Compat.OPM_1_26)
    named = {
        name: replace(package, display_name=_display_name(database, package))
        for name, package in catalog.packages.items()
    }
    return Catalog(named)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the database holds of its bundles and channels, without manifests."""

    bundles: Mapping[str, stored.BundleRow]
    properties: Mapping[str, Sequence[stored.PropertyRow]]
    channels: Sequence[stored.ChannelRow]
    entries: Mapping[tuple[str, str], Sequence[EntryBlob]]

    @classmethod
    def of(cls, database: IndexDatabase) -> _Rows:
        properties = properties_by_bundle(stored.property_rows(database))
        bundles = {
            row.name: row
            for row in stored.bundle_rows(database)
            if all(known.type != DEPRECATED for known in properties[row.name])
        }
        return cls(bundles, properties, stored.channel_rows(database), _entries(database, bundles))

    def blobs(self) -> Blobs:
        """The catalog; raises InvalidCatalog for properties that are no JSON."""
        faults: list[CatalogFinding] = []
        defaults = {row.package: row.default_channel for row in self.channels}
        channels = [
            ChannelBlob(row.channel, row.package, tuple(self.entries[row.package, row.channel]))
            for row in self.channels
        ]
        members = sorted({(channel.package, entry.name) for channel in channels for entry in channel.entries})
        bundles = [
            BundleBlob(name, package, self.bundles[name].image, tuple(self._properties(package, name, faults)))
            for package, name in members
        ]
        raise_findings(faults)
        return Blobs(tuple(map(PackageBlob, defaults, defaults.values())), tuple(channels), tuple(bundles))

    def _properties(self, package: str, name: str, faults: list[CatalogFinding]) -> Iterator[BlobProperty]:
        for number, row in enumerate(self.properties[name]):
            try:
                yield BlobProperty(row.type, parse_json(row.value))
            except ValueError as error:
                told = f'parse property[{number}] of type "{row.type}": {error}'
                faults.append(CatalogFinding(told, package=package, bundle=name))
        if self.bundles[name].has_manifests:
            yield BlobProperty(BUNDLE_OBJECT, {"data": ""})  # stands for them


def properties_by_bundle(rows: Iterable[stored.PropertyRow]) -> defaultdict[str, list[stored.PropertyRow]]:
    """The properties or dependencies of each bundle."""
    found: defaultdict[str, list[stored.PropertyRow]] = defaultdict(list)
    for row in rows:
        found[row.bundle].append(row)
    return found


def _entries(
    database: IndexDatabase, bundles: Mapping[str, stored.BundleRow]
) -> Mapping[tuple[str, str], list[EntryBlob]]:
    """The entries of each (package, channel), sorted by name, with what the stored entries say of their edges.

    An entry on the chain from a head shows what the bundle replaces; any other that points at one, what it skips.
    """
    rows = stored.entry_rows(database)
    names = {row.entry_id: row.bundle for row in rows}
    on_chain = _chain_entries(rows)
    replaced: dict[tuple[str, str, str], str] = {}
    skipped: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        place = (row.package, row.channel, row.bundle)
        target = names.get(row.replaces) if row.replaces is not None else None
        if target is None:
            continue
        if row.entry_id in on_chain:
            replaced[place] = max(replaced.get(place, ""), target)
        else:
            skipped[place].append(target)
    entries: defaultdict[tuple[str, str], list[EntryBlob]] = defaultdict(list)
    for place in sorted({(row.package, row.channel, row.bundle) for row in rows if row.bundle in bundles}):
        package, channel, name = place
        entry = EntryBlob(name, replaced.get(place, ""), tuple(skipped[place]), bundles[name].skip_range)
        entries[package, channel].append(entry)
    return entries


def _chain_entries(rows: Sequence[stored.EntryRow]) -> set[int]:
    """The ids of the entries that can be reached from those of the least depth, the heads."""
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
    """The spec in the ClusterServiceVersion that heads the default channel, empty where the database has none."""
    channel = package.channels.get(package.default_channel)
    if channel is None or len(channel.heads) != 1:
        return {}
    try:
        spec = json.loads(stored.cluster_service_version(database, channel.heads[0]) or b"{}")["spec"]
    except (ValueError, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}
