"""Index databases as blobs of file-based catalogs, as the reference converts them."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle import fields
from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.properties import GVK, PACKAGE
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
from opmkit.index.rendering.from_database import head_spec, load_catalog, properties_by_bundle
from opmkit.index.sqlite import catalog as stored
from opmkit.index.sqlite.manifests import cut_manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.model import Channel
    from opmkit.index.sqlite import IndexDatabase

_BLANKS = re.compile(r"[ \r\n]")


def blobs_of_database(database: IndexDatabase) -> Blobs:
    """The catalog that an index database holds as blobs of a file-based one, in order.

    A bundle has its objects where the database keeps them: it does for the heads of channels, and for those without an
    image.

    Raises:
        InvalidCatalog: it breaks the rules for catalogs, see `load_catalog`, or has a value that can't be read.
    """
    packages = [package for _, package in sorted(load_catalog(database).packages.items())]
    bundles = _StoredBundles.of(database)
    return Blobs(
        tuple(
            PackageBlob(one.name, one.default_channel, icon_of(head_spec(database, one).get("icon")))
            for one in packages
        ),
        tuple(_channel_blob(one.name, channel) for one in packages for _, channel in sorted(one.channels.items())),
        tuple(bundles.blob(one.name, name) for one in packages for name in sorted(one.bundles)),
    )


def icon_of(icons: JsonValue) -> Icon | None:
    """The first of the icons in the spec of a ClusterServiceVersion, None where there is none that can be read."""
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
    entries = (EntryBlob(one.name, one.replaces, one.skips, one.skip_range) for one in channel.entries.values())
    return ChannelBlob(channel.name, package, tuple(sorted(entries, key=lambda one: one.name)))


@dataclass(frozen=True, slots=True)
class _StoredBundles:
    """What the database holds of its bundles, by their names."""

    database: IndexDatabase
    rows: Mapping[str, stored.BundleRow]
    properties: Mapping[str, Sequence[stored.PropertyRow]]
    dependencies: Mapping[str, Sequence[stored.PropertyRow]]
    images: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, database: IndexDatabase) -> _StoredBundles:
        images: defaultdict[str, list[str]] = defaultdict(list)
        for bundle, image in stored.related_image_rows(database):
            images[bundle].append(image)
        return cls(
            database,
            {row.name: row for row in stored.bundle_rows(database)},
            properties_by_bundle(stored.property_rows(database)),
            properties_by_bundle(stored.dependency_rows(database)),
            images,
        )

    def blob(self, package: str, name: str) -> BundleBlob:
        try:
            manifests = cut_manifests(stored.bundle_manifests(self.database, name))
            objects = [BlobProperty(BUNDLE_OBJECT, object_value(text.encode())) for text, _ in manifests]
            properties = sort_properties(unique_properties([*self._properties(package, name), *objects]))
            images = _csv_images(value for _, value in manifests)
        except (ValueError, RecursionError, InvalidBundle) as error:
            raise InvalidCatalog(
                f'bundle "{name}" can\'t be read: {error}', advice="Build the index again without that bundle."
            ) from error
        named = {one.image for one in images}
        images += [RelatedImage("", image) for image in self.images.get(name, ()) if image not in named]
        return BundleBlob(name, package, self.rows[name].image, properties, sort_related_images(images))

    def _properties(self, package: str, name: str) -> Iterator[BlobProperty]:
        """The properties as they are, APIs and what the bundle requires in their normal form."""
        properties = self.properties.get(name, ())
        for one in properties:
            value = parse_json(one.value)
            yield gvk_property(GVK, value) if one.type == GVK else BlobProperty(one.type, value)
        if all(one.type != PACKAGE for one in properties):
            yield BlobProperty(PACKAGE, {"packageName": package, "version": self.rows[name].version})
        for one in self.dependencies.get(name, ()):
            if one.type == PACKAGE:
                yield package_required_property(parse_json(one.value))
            elif one.type == GVK:
                yield gvk_property(GVK_REQUIRED, parse_json(one.value))


def _csv_images(manifests: Iterable[JsonValue]) -> list[RelatedImage]:
    """The related images that the first ClusterServiceVersion names."""
    for value in manifests:
        if isinstance(value, dict) and value.get("kind") == CSV_KIND:
            return related_images(fields.mapping(value.get("spec"), "spec"))
    return []
