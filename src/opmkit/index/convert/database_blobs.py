"""Conversion of index databases to blobs of file-based catalogs, as in operator-registry."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.properties import GVK, PACKAGE
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.index.convert.database_catalog import head_spec, load_catalog, properties_by_bundle
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import (
    BUNDLE_OBJECT,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    EntryBlob,
    Icon,
    PackageBlob,
    RelatedImage,
)
from opmkit.index.fbc.from_bundle import (
    GVK_REQUIRED,
    gvk_property,
    object_value,
    package_required_property,
    parse_json,
    related_images,
    sort_properties,
    sort_related_images,
    unique_properties,
)
from opmkit.index.sqlite import rows as stored
from opmkit.index.sqlite.manifests import split_manifests

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
        InvalidCatalog: the catalog is invalid, see `load_catalog`, or a value cannot be parsed.
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


@dataclass(frozen=True, slots=True)
class _BundleRows:
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
                yield gvk_property(GVK_REQUIRED, parse_json(row.value))


def _csv_images(manifests: Iterable[JsonValue]) -> list[RelatedImage]:
    """Return the related images of the first ClusterServiceVersion."""
    for value in manifests:
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            return related_images(fields.mapping(value.get("spec"), "spec"))
    return []
