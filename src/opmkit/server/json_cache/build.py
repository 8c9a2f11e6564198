"""Write the content of operator-registry's cache format ``json`` from a file-based catalog."""

from __future__ import annotations

import base64
import posixpath
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.bundle.property_types import GVK, REQUIRED_GVK, REQUIRED_PACKAGE
from opmkit.core.files import make_directory
from opmkit.documents import yaml_decoder
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.json_value import encode, escape_html
from opmkit.index.errors import CatalogError
from opmkit.index.fbc import blobs as kinds
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE
from opmkit.index.fbc.check.catalog import group_by_package
from opmkit.index.fbc.csv_metadata import csv_from_metadata
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.load import read_blobs
from opmkit.index.fbc.model import Catalog
from opmkit.index.fbc.write import compact_json, with_go_numbers
from opmkit.server.json_cache.digest import (
    DIRECTORY_MODE,
    METAS,
    PACKAGES,
    SCHEMA_NAME,
    bundle_file,
    create_file,
    fnv1a,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob, EntryBlob, Icon, OtherBlob, PackageBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.model import Channel


class LoadedCatalog(Struct, frozen=True):
    """A valid catalog: the blobs of each package, the graphs of their channels, and documents of custom schemas."""

    packages: list[PackageBlobs]
    graph: Catalog
    others: tuple[OtherBlob, ...]


def load_catalog(root: Path) -> LoadedCatalog:
    """Read and check a catalog.

    Raises:
        InvalidCatalog: The catalog is not valid; the error lists all findings.
        DiskError: A file cannot be read.
    """
    blobs = read_blobs(root)
    return LoadedCatalog(group_by_package(blobs), Catalog.from_blobs(blobs), blobs.others)


def write_index(catalog: LoadedCatalog, directory: Path) -> None:
    """Write all files except those of bundles into an empty directory.

    Raises:
        CatalogError: Two bundles have the same file name, or names are invalid in a file name.
        OSError: A file cannot be written.
    """
    index = {package.name: _package(package, catalog.graph) for package in catalog.packages}
    files = {PACKAGES: escape_html(orjson.dumps(index)), **dict(_custom_files(catalog.others))}
    _check_names(catalog.graph, files)
    for name, document in files.items():
        _write_file(directory / name, document)


def write_bundles(catalog: LoadedCatalog, directory: Path) -> None:
    """Write the files of bundles next to those that `write_index` has written; raises OSError."""
    for package in catalog.packages:
        for name, document in _bundle_files(package, catalog.graph):
            _write_file(directory / name, document)


def _check_names(graph: Catalog, files: Iterable[str]) -> None:
    """Raise CatalogError unless each bundle in each channel has its own file."""
    used = set(files)
    for package in graph.packages.values():
        for channel in package.channels.values():
            for bundle in channel.entries:
                name = bundle_file(package.name, channel.name, bundle)
                if name in used:
                    raise CatalogError(
                        f"{posixpath.basename(name)}: two bundles have the same cache file",
                        hint="rename one of the channels or bundles",
                    )
                used.add(name)


def _write_file(path: Path, data: bytes) -> None:
    make_directory(path.parent, DIRECTORY_MODE)
    create_file(path, data)


def _bundle_files(package: PackageBlobs, graph: Catalog) -> Iterator[tuple[str, bytes]]:
    """Yield a file for each bundle in each channel."""
    (definition,) = package.packages
    deprecations = _deprecations(package, BUNDLE)
    common = {
        bundle.name: common_fields(bundle, definition, deprecations.get(bundle.name)) for bundle in package.bundles
    }
    for channel in graph.packages[package.name].channels.values():
        for name, entry in channel.entries.items():
            document = bundle_document(common[name], package.name, channel.name, entry)
            yield bundle_file(package.name, channel.name, name), document


def _deprecations(package: PackageBlobs, schema: str) -> dict[str, str]:
    """Return the deprecation messages of one schema by name."""
    entries = (entry for blob in package.deprecations for entry in blob.entries)
    return {entry.name: entry.message for entry in entries if entry.schema == schema}


def _package(package: PackageBlobs, graph: Catalog) -> dict[str, Any]:
    """Return a package as Go's index of packages has it."""
    (definition,) = package.packages
    deprecations = _deprecations(package, CHANNEL)
    channels = graph.packages[package.name].channels.values()
    return {
        "name": package.name,
        "description": definition.description,
        "icon": _icon(definition.icon),
        "defaultChannel": definition.default_channel,
        "Channels": {
            channel.name: _channel(package.name, channel) | _deprecation(deprecations.get(channel.name))
            for channel in channels
        },
        **_deprecation(_deprecations(package, PACKAGE).get("")),
    }


def _icon(icon: Icon | None) -> dict[str, str] | None:
    if icon is None:
        return None
    return {"base64data": base64.b64encode(decode_base64(icon.data) or b"").decode(), "mediatype": icon.media_type}


def _channel(package: str, channel: Channel) -> dict[str, Any]:
    bundles = {name: _entry(package, channel.name, entry) for name, entry in sorted(channel.entries.items())}
    return {"Name": channel.name, "Head": channel.heads[0], "Bundles": bundles}


def _entry(package: str, channel: str, entry: EntryBlob) -> dict[str, Any]:
    skips = entry.skips or None
    return {"package": package, "channel": channel, "name": entry.name, "replaces": entry.replaces, "skips": skips}


def _deprecation(message: str | None) -> dict[str, Any]:
    return {} if message is None else {"deprecation": {"message": message}}


def _custom_files(blobs: Iterable[OtherBlob]) -> Iterator[tuple[str, bytes]]:
    """Yield a file for each document of a schema that clients of operator-registry can ask for."""
    for blob in blobs:
        if SCHEMA_NAME.fullmatch(blob.schema) and (not blob.package or SCHEMA_NAME.fullmatch(blob.package)):
            document = compact_json(blob)
            yield "/".join(filter(None, (METAS, blob.schema, blob.package, f"{fnv1a(document):x}.json"))), document


_CSV_KIND = "ClusterServiceVersion"
_MANIFEST_PROPERTIES = (kinds.BUNDLE_OBJECT, kinds.CSV_METADATA)
"""Properties with manifests, which have their own fields. Clusters copy the other properties to size-limited fields."""


def common_fields(bundle: BundleBlob, package: PackageBlob, deprecation: str | None) -> dict[str, Any]:
    """Return the fields of a bundle that are the same in each channel, as JSON has them.

    Args:
        bundle: The bundle.
        package: Its package, for the ClusterServiceVersion made from ``olm.csv.metadata``.
        deprecation: The deprecation message of the bundle, or None if it is not deprecated.
    """
    objects = list(map(_manifest, bundle.property_values(kinds.BUNDLE_OBJECT)))
    csv = next(filter(_is_csv, objects), "")
    metadata = next(bundle.property_values(kinds.CSV_METADATA), None)
    if not csv and isinstance(metadata, dict):
        csv = encode(_csv_from_metadata(metadata, bundle, package)).decode()
        objects = objects or [csv]
    return {
        "csvName": bundle.name,
        "csvJson": csv,
        "object": objects,
        "bundlePath": bundle.image,
        "providedApis": list(map(_api, bundle.property_values(GVK))),
        "requiredApis": list(map(_api, bundle.property_values(REQUIRED_GVK))),
        "version": _first_member(bundle.property_values(kinds.PACKAGE), "version"),
        "dependencies": [{"type": kind, "value": value} for kind, value in _dependencies(bundle.properties)],
        "properties": [
            {"type": each.type, "value": _sorted_json(each.value)}
            for each in bundle.properties
            if each.type not in _MANIFEST_PROPERTIES
        ],
        "deprecation": None if deprecation is None else {"message": deprecation},
    }


def bundle_document(common: Mapping[str, Any], package: str, channel: str, entry: EntryBlob) -> bytes:
    """Return a bundle in a channel as a JSON document of Go's ``api.Bundle``."""
    fields = {
        **common,
        "packageName": package,
        "channelName": channel,
        "skipRange": entry.skip_range,
        "replaces": entry.replaces,
        "skips": entry.skips,
    }
    return escape_html(orjson.dumps({name: fields[name] for name in _bundle_fields() if fields[name]}))


@cache
def _bundle_fields() -> tuple[str, ...]:
    """Return the names of the fields of a bundle, in the order of Go's type."""
    from opmkit.index.grpc_api import message_class  # slow to import: not needed to check a catalog

    return tuple(field.name for field in message_class("Bundle").DESCRIPTOR.fields)


def _sorted_json(value: JsonValue) -> str:
    """Return JSON without whitespace, with sorted keys."""
    return orjson.dumps(with_go_numbers(value), option=orjson.OPT_SORT_KEYS).decode()


def _api(value: JsonValue) -> dict[str, str]:
    """Return the group, version and kind of an API, without empty ones."""
    members = value if isinstance(value, dict) else {}
    return {name: str(members[name]) for name in ("group", "version", "kind") if members.get(name)}


def _first_member(values: Iterable[JsonValue], name: str) -> str:
    """Return a member of the first value, or "" if there is none."""
    value = next(iter(values), None)
    return str(value.get(name, "")) if isinstance(value, dict) else ""


def _dependencies(properties: Iterable[BlobProperty]) -> Iterable[tuple[str, str]]:
    """Yield the type and value of each dependency in the properties."""
    for each in properties:
        if each.type == REQUIRED_GVK:
            yield GVK, _sorted_json(each.value)
        elif each.type == REQUIRED_PACKAGE and isinstance(each.value, dict):
            package, version = each.value.get("packageName", ""), each.value.get("versionRange", "")
            yield kinds.PACKAGE, _sorted_json({"packageName": package, "version": version})


def _manifest(value: JsonValue) -> str:
    """Return the manifest in a property as JSON, or "" if it is invalid, which the check of the catalog reports."""
    data = value.get("data") if isinstance(value, dict) else None
    raw = (decode_base64(data) if isinstance(data, str) else None) or b""
    try:
        return raw.decode() if raw.lstrip().startswith(b"{") else encode(yaml_decoder.load(raw)).decode()
    except (ValueError, InvalidDocument):
        return ""


def _is_csv(text: str) -> bool:
    if _CSV_KIND not in text:  # much faster than parsing, and enough for most manifests
        return False
    try:
        document = orjson.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == _CSV_KIND


def _csv_from_metadata(metadata: JsonValue, bundle: BundleBlob, package: PackageBlob) -> dict[str, JsonValue]:
    """Return a ClusterServiceVersion for user interfaces from the property ``olm.csv.metadata``.

    It has all fields that the type in Go always writes, which clients may require.
    """
    parts = csv_from_metadata(metadata)
    spec = parts["spec"] | {
        "install": {"strategy": "deployment", "spec": {"deployments": None}},
        "version": _first_member(bundle.property_values(kinds.PACKAGE), "version"),
        "cleanup": {"enabled": False},
    }
    if package.icon:
        spec["icon"] = [{"base64data": package.icon.data, "mediatype": package.icon.media_type}]
    if bundle.related_images:
        spec["relatedImages"] = [{"name": each.name, "image": each.image} for each in bundle.related_images]
    if not spec.get("description") and package.description:
        spec["description"] = package.description
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": _CSV_KIND,
        "metadata": {"name": bundle.name, **parts["metadata"]},
        "spec": spec,
        "status": {"cleanup": {}},
    }
