"""Write the content of operator-registry's cache format ``json`` from a file-based catalog."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.core.files import make_directory
from opmkit.documents.json_value import escape_html
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE
from opmkit.index.fbc.check.catalog import group_by_package
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.load import read_blobs
from opmkit.index.fbc.model import Catalog
from opmkit.index.fbc.write import compact_json
from opmkit.server.json_cache.digest import (
    DIRECTORY_MODE,
    METAS,
    PACKAGES,
    SCHEMA_NAME,
    bundle_file,
    create_file,
    fnv1a,
)
from opmkit.server.json_cache.encode import bundle_document, common_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import EntryBlob, Icon, OtherBlob
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.model import Channel


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
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


def write_content(catalog: LoadedCatalog, directory: Path) -> None:
    """Write all files into an empty directory.

    Raises:
        CatalogError: Two bundles have the same file name, or names are invalid in a file name.
        OSError: A file cannot be written.
    """
    index = {}
    for package in catalog.packages:
        for name, document in _bundle_files(package, catalog.graph):
            _write_file(directory / name, document)
        index[package.name] = _package(package, catalog.graph)
    _write_file(directory / PACKAGES, escape_html(orjson.dumps(index)))
    for name, document in dict(_custom_files(catalog.others)).items():
        _write_file(directory / name, document)


def _write_file(path: Path, data: bytes) -> None:
    make_directory(path.parent, DIRECTORY_MODE)
    try:
        create_file(path, data)
    except FileExistsError as error:
        raise CatalogError(
            f"{path.name}: two bundles have the same cache file", hint="rename one of the channels or bundles"
        ) from error


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
