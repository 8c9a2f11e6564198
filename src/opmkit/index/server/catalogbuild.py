"""Making the cache of a served catalog: answers are prepared, and an index says where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.catalog.blobs import EntryBlob
from opmkit.index.catalog.check import packages_of, valid_catalog
from opmkit.index.catalog.load import read_blobs
from opmkit.index.server import catalogbundles
from opmkit.index.server.catalogplaces import place
from opmkit.index.server.records import framed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.index.catalog.blobs import BundleBlob
    from opmkit.index.catalog.check import PackageBlobs
    from opmkit.index.catalog.model import Catalog


@dataclass(frozen=True, slots=True)
class ReadCatalog:
    """A catalog that keeps all rules: what it says of each package, and the graphs of their channels."""

    packages: list[PackageBlobs]
    graph: Catalog


def read_catalog(root: Path) -> ReadCatalog:
    """Read a catalog and check it.

    Raises:
        InvalidCatalog: with all that is wrong with it.
        StoreError: if it can't be read.
    """
    blobs = read_blobs(root)
    return ReadCatalog(packages_of(blobs), valid_catalog(blobs))


class _Writer:
    """Writes records one after the other."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def record(self, data: bytes) -> list[int]:
        return self.stream([data])

    def stream(self, pieces: Iterable[bytes]) -> list[int]:
        start = self._file.tell()
        self._file.writelines(pieces)
        return [start, self._file.tell() - start]

    def close(self) -> None:
        self._file.close()


def write_records(catalog: ReadCatalog, path: Path) -> dict[str, Any]:
    """Write the prepared answers, and give the index of them; raises OSError."""
    packages = catalog.packages
    writer = _Writer(path)
    try:
        parts: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        bundles = {package.name: _bundles(package, writer, parts) for package in packages}
        named = [_package(package, catalog.graph) for package in packages]
        listed = writer.stream(framed(_listed(named, parts)))
    finally:
        writer.close()
    return {"packages": named, "bundles": bundles, "apis": _apis(packages), "list": listed}


def _bundles(
    package: PackageBlobs, writer: _Writer, parts: dict[tuple[str, str], tuple[bytes, bytes]]
) -> dict[str, list[list[int]]]:
    """The records of each bundle: its facts, and its manifests; ``parts`` gets what the list of all has of it."""
    (own,) = package.packages
    reasons = _reasons(package, "olm.bundle")
    found = {}
    for bundle in package.bundles:
        told = catalogbundles.facts(bundle, reasons.get(bundle.name))
        objects = catalogbundles.manifests(bundle, own)
        parts[package.name, bundle.name] = told, b"" if bundle.image else objects
        found[bundle.name] = [writer.record(told), writer.record(objects)]
    return found


def _reasons(package: PackageBlobs, schema: str) -> dict[str, str]:
    """Why things of a schema are deprecated, by their names."""
    entries = (entry for blob in package.deprecations for entry in blob.entries)
    return {entry.name: entry.message for entry in entries if entry.schema == schema}


def _package(package: PackageBlobs, graph: Catalog) -> dict[str, Any]:
    known = graph.packages[package.name]
    reasons = _reasons(package, "olm.channel")
    channels = [
        {
            "name": channel.name,
            "head": channel.heads[0],
            "deprecation": reasons.get(channel.name),
            "entries": [
                [entry.name, entry.replaces, list(entry.skips), entry.skip_range]
                for _, entry in sorted(channel.entries.items())
            ],
        }
        for channel in known.channels.values()
    ]
    own = _reasons(package, "olm.package")
    return {"name": known.name, "default": known.default_channel, "deprecation": own.get(""), "channels": channels}


def _listed(packages: list[dict[str, Any]], parts: dict[tuple[str, str], tuple[bytes, bytes]]) -> Iterator[bytes]:
    for package in packages:
        for channel in package["channels"]:
            for name, replaces, skips, skip_range in channel["entries"]:
                entry = EntryBlob(name, replaces, tuple(skips), skip_range)
                head = place(package["name"], channel["name"], entry, edges=True)
                yield head + b"".join(parts[package["name"], name])


def _apis(packages: list[PackageBlobs]) -> list[list[Any]]:
    """The APIs that bundles provide, each with the packages and bundles that do."""
    found: dict[tuple[str, str, str], list[list[str]]] = {}
    for package in packages:
        for bundle in package.bundles:
            for api in _provided(bundle):
                found.setdefault(api, []).append([package.name, bundle.name])
    return [[*api, providers] for api, providers in found.items()]


def _provided(bundle: BundleBlob) -> dict[tuple[str, str, str], None]:
    return dict.fromkeys(map(catalogbundles.api_key, bundle.values(catalogbundles.GVK)))
