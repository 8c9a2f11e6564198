"""Conversion of index databases to catalogs and their blobs, as in operator-registry."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.property_types import GVK, PACKAGE, REQUIRED_GVK
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import (
    BUNDLE_OBJECT,
    DEPRECATED,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    EntryBlob,
    Icon,
    PackageBlob,
    RelatedImage,
)
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.from_bundle import (
    gvk_property,
    object_value,
    package_required_property,
    parse_json,
    related_images,
    sort_properties,
    sort_related_images,
    unique_properties,
)
from opmkit.index.fbc.model import Catalog, Package
from opmkit.index.sqlite import rows as stored
from opmkit.index.sqlite.bundles import split_manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blob
    from opmkit.index.fbc.model import Channel
    from opmkit.index.sqlite import IndexDatabase


_BLANKS = re.compile(r"[ \r\n]")


def database_to_blobs(database: IndexDatabase, *, sort_objects: bool = True) -> Blobs:
    """Convert an index database to sorted blobs of a file-based catalog.

    Bundles have their objects if the database stores them: at least for channel heads and bundles without an image.
    With ``sort_objects`` they are sorted, and repeated ones omitted; otherwise they are in the order of the database.

    Raises:
        InvalidCatalog: The catalog is invalid, see `load_catalog`, or a value cannot be parsed.
    """
    return Blobs.from_blobs(stream_database_blobs(database, sort_objects=sort_objects))


def stream_database_blobs(database: IndexDatabase, *, sort_objects: bool = True) -> Iterator[Blob]:
    """Yield the blobs of `database_to_blobs` one at a time, package by package."""
    packages = [package for _, package in sorted(load_catalog(database).packages.items())]
    bundles = _BundleRows.read(database, sort_objects=sort_objects)
    for package in packages:
        icon = decode_icon(head_spec(database, package).get("icon"))
        yield PackageBlob(package.name, package.default_channel, icon)
        yield from (_channel_blob(package.name, channel) for _, channel in sorted(package.channels.items()))
        yield from (bundles.blob(package.name, name) for name in sorted(package.bundles))


def decode_icon(icons: JsonValue) -> Icon | None:
    """Return the first icon of a ClusterServiceVersion, None if it is missing or invalid."""
    first = icons[0] if isinstance(icons, list) and icons else None
    if not isinstance(first, dict):
        return None
    text, media_type = first.get("base64data"), first.get("mediatype", "")
    if not isinstance(text, str) or not isinstance(media_type, str):
        return None
    try:
        data = base64.b64decode(_BLANKS.sub("", text), validate=True)
    except ValueError:
        return None
    return Icon(base64.b64encode(data).decode(), media_type) if data else None


def _channel_blob(package: str, channel: Channel) -> ChannelBlob:
    entries = (
        EntryBlob(entry.name, entry.replaces, entry.skips, entry.skip_range) for entry in channel.entries.values()
    )
    return ChannelBlob(channel.name, package, tuple(sorted(entries, key=lambda entry: entry.name)))


class _BundleRows(Struct, frozen=True):
    """The rows of all bundles, by name."""

    database: IndexDatabase
    rows: Mapping[str, stored.BundleRow]
    properties: Mapping[str, Sequence[stored.PropertyRow]]
    dependencies: Mapping[str, Sequence[stored.PropertyRow]]
    images: Mapping[str, Sequence[str]]
    sort_objects: bool

    @classmethod
    def read(cls, database: IndexDatabase, *, sort_objects: bool) -> _BundleRows:
        images: defaultdict[str, list[str]] = defaultdict(list)
        for bundle, image in stored.related_image_rows(database):
            images[bundle].append(image)
        return cls(
            database,
            {row.name: row for row in stored.bundle_rows(database)},
            properties_by_bundle(stored.property_rows(database)),
            properties_by_bundle(stored.dependency_rows(database)),
            images,
            sort_objects,
        )

    def blob(self, package: str, name: str) -> BundleBlob:
        try:
            manifests = split_manifests(stored.bundle_manifests(self.database, name))
            objects = [BlobProperty(BUNDLE_OBJECT, object_value(text.encode())) for text, _ in manifests]
            others = unique_properties(self._properties(package, name))
            sorted_objects = unique_properties(objects) if self.sort_objects else ()
            properties = sort_properties([*others, *sorted_objects])
            images = _csv_images(value for _, value in manifests)
        except (ValueError, RecursionError, InvalidBundle, FieldTypeError) as error:
            raise InvalidCatalog(
                f'bundle "{name}": invalid content: {error}', hint="build the index again without that bundle"
            ) from error
        named = {related.image for related in images}
        images += [RelatedImage("", image) for image in self.images.get(name, ()) if image not in named]
        if not self.sort_objects:
            properties = (*properties, *objects)
        return BundleBlob(name, package, self.rows[name].image, properties, sort_related_images(images))

    def _properties(self, package: str, name: str) -> Iterator[BlobProperty]:
        """Yield the properties, with provided APIs and requirements in their normalized form."""
        properties = self.properties.get(name, ())
        for row in properties:
            value = parse_json(row.value)
            yield gvk_property(GVK, value) if row.type == GVK else BlobProperty(row.type, value)
        if all(row.type != PACKAGE for row in properties):
            yield BlobProperty(PACKAGE, {"packageName": package, "version": self.rows[name].version})
        for row in self.dependencies.get(name, ()):
            if row.type == PACKAGE:
                yield package_required_property(parse_json(row.value))
            elif row.type == GVK:
                yield gvk_property(REQUIRED_GVK, parse_json(row.value))


def _csv_images(manifests: Iterable[JsonValue]) -> list[RelatedImage]:
    """Return the related images of the first ClusterServiceVersion."""
    for value in manifests:
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            return related_images(fields.mapping(value.get("spec"), "spec"))
    return []


def load_catalog(database: IndexDatabase) -> Catalog:
    """Load the catalog of an index database, sorted by name.

    Deprecated bundles are omitted, and so are entries whose bundle does not exist.

    Raises:
        InvalidCatalog: The catalog is invalid by the rules of operator-registry 1.26.
    """
    catalog = Catalog.from_blobs(_Rows.read(database).to_blobs(), CatalogCompat.OPM_1_26)
    named = {
        name: replace(package, display_name=_display_name(database, package))
        for name, package in catalog.packages.items()
    }
    return Catalog(named)


class _Rows(Struct, frozen=True):
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
