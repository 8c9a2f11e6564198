"""Reading an index database as a catalog."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from opmkit.index.catalog.blobs import EntryBlob
from opmkit.index.catalog.model import Catalog, CatalogBundle, Channel, Package, Property
from opmkit.index.catalog.validation import check_catalog
from opmkit.index.database import catalog as stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.bundle.jsonvalue import JsonValue
    from opmkit.index.database import IndexDatabase

_DEPRECATED_PROPERTY = "olm.deprecated"


def load_catalog(database: IndexDatabase) -> Catalog:
    """The catalog that an index database holds, with all names in order.

    Deprecated bundles are left out, and so are entries whose bundle the database does not have.

    Raises:
        InvalidCatalog: it breaks the rules for catalogs, see `check_catalog`.
    """
    bundles = _bundles(database)
    entries = _entries(database, bundles)
    packages: dict[str, Package] = {}
    for name, rows in groupby(stored.channel_rows(database), lambda row: row.package):
        channel_rows = list(rows)
        channels = {row.channel: Channel(row.channel, entries[name, row.channel]) for row in channel_rows}
        members = {entry: bundles[entry] for channel in channels.values() for entry in channel.entries}
        package = Package(name, channel_rows[0].default_channel, channels, members)
        packages[name] = replace(package, display_name=_display_name(database, package))
    catalog = Catalog(packages)
    check_catalog(catalog)
    return catalog


def properties_by_bundle(rows: Iterable[stored.PropertyRow]) -> defaultdict[str, list[Property]]:
    """The properties or dependencies of each bundle."""
    found: defaultdict[str, list[Property]] = defaultdict(list)
    for row in rows:
        found[row.bundle].append(Property(row.type, row.value))
    return found


def _bundles(database: IndexDatabase) -> dict[str, CatalogBundle]:
    properties = properties_by_bundle(stored.property_rows(database))
    return {
        row.name: CatalogBundle(row.name, row.image, row.skip_range, tuple(properties[row.name]), row.has_manifests)
        for row in stored.bundle_rows(database)
        if all(known.type != _DEPRECATED_PROPERTY for known in properties[row.name])
    }


def _entries(
    database: IndexDatabase, bundles: Mapping[str, CatalogBundle]
) -> Mapping[tuple[str, str], dict[str, EntryBlob]]:
    """The entries of each (package, channel) by name, with what the stored entries say of their edges.

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
    entries: defaultdict[tuple[str, str], dict[str, EntryBlob]] = defaultdict(dict)
    for place in sorted({(row.package, row.channel, row.bundle) for row in rows if row.bundle in bundles}):
        package, channel, name = place
        entry = EntryBlob(name, replaced.get(place, ""), tuple(skipped[place]), bundles[name].skip_range)
        entries[package, channel][name] = entry
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
