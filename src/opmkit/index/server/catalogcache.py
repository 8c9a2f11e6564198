"""The cache of a served catalog: prepared answers in one file, and an index that says where they are.

The layout of the directory is that of the reference, ``digest`` beside ``cache/``; what is in ``cache/`` is our own and
of use to no other program. It is rebuilt wherever it isn't what is expected.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.catalog.check import packages_of, valid_catalog
from opmkit.index.catalog.load import read_blobs
from opmkit.index.catalog.tree import catalog_files
from opmkit.index.errors import CatalogError
from opmkit.index.server import catalogbundles
from opmkit.index.server.records import framed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.index.catalog.blobs import BundleBlob
    from opmkit.index.catalog.check import PackageBlobs
    from opmkit.index.catalog.model import Catalog

_FORMAT = "opmkit 2"
_DIGEST, _CACHE = "digest", "cache"
_INDEX, _RECORDS = "index.json", "records"
_PIECE = 1 << 20


class CacheUnfit(CatalogError):
    """A cache that does not belong to the catalog, where one that does is demanded, or a directory of another use."""


@dataclass(frozen=True, slots=True)
class CatalogCache:
    """A cache that is whole: the index as it was written, and the path of the file with the records."""

    index: dict[str, Any]
    records: Path


def load_cache(root: Path, directory: Path, *, enforce: bool) -> CatalogCache:
    """The cache of the catalog at ``root`` in ``directory``, made anew unless it belongs to the catalog.

    With ``enforce`` it has to belong to it.

    Raises:
        CacheUnfit: if it does not, and that is demanded, or the directory has other content.
        InvalidCatalog: with all that is wrong with the catalog.
        StoreError: if something can't be read or written.
    """
    _refuse_others(directory)
    digest = digest_of_catalog(root)
    known = _read_digest(directory)
    if known == digest:
        with disk_errors(directory):
            index: dict[str, Any] = orjson.loads((directory / _CACHE / _INDEX).read_bytes())
        return CatalogCache(index, directory / _CACHE / _RECORDS)
    if enforce:
        told = f'cache requires rebuild: cache reports digest as "{known}", but computed digest is "{digest}"'
        raise CacheUnfit(
            told if known else f"read existing cache digest: {directory / _DIGEST} is not there, or not whole",
            advice="Build the cache with --cache-only, or serve with --cache-enforce-integrity=false.",
        )
    return build_cache(root, directory, digest)


def build_cache(root: Path, directory: Path, digest: str) -> CatalogCache:
    """Make the cache; it is whole, or as it was before. Raises what `load_cache` does."""
    blobs = read_blobs(root)
    catalog = valid_catalog(blobs)
    with disk_errors(directory):
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        (directory / _DIGEST).unlink(missing_ok=True)  # from here to the end there is no cache
        made = Path(tempfile.mkdtemp(prefix=".cache-", dir=directory))
        try:
            index = _write(packages_of(blobs), catalog, made / _RECORDS)
            (made / _INDEX).write_bytes(orjson.dumps(index))
            made.chmod(0o750)
            shutil.rmtree(directory / _CACHE, ignore_errors=True)
            made.rename(directory / _CACHE)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        pending = directory / f".{_DIGEST}"
        pending.write_text(_sealed(digest, directory))
        pending.rename(directory / _DIGEST)
    return CatalogCache(index, directory / _CACHE / _RECORDS)


def digest_of_catalog(root: Path) -> str:
    """What a catalog's files are known by: their paths and contents."""
    digest = hashlib.sha256(_FORMAT.encode())
    with disk_errors(root):
        for name, path in catalog_files(root):
            digest.update(f"\0{name}\0{path.stat().st_size}\0".encode(errors="surrogateescape"))
            with path.open("rb") as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
    return digest.hexdigest()


def _sealed(digest: str, directory: Path) -> str:
    """The digest of the catalog, with that of the cache made of it."""
    return f"{digest} {_digest_of_cache(directory)}\n"


def _digest_of_cache(directory: Path) -> str:
    """Tells a cache that was cut short or tampered with in its index; the records are known by their size."""
    size = (directory / _CACHE / _RECORDS).stat().st_size
    return hashlib.sha256((directory / _CACHE / _INDEX).read_bytes() + b"%d" % size).hexdigest()


def _read_digest(directory: Path) -> str:
    """The digest of the catalog that a cache was made of; "" where there is none that is whole."""
    try:
        digest, _, cache = (directory / _DIGEST).read_text().strip().partition(" ")
        return digest if cache == _digest_of_cache(directory) else ""
    except (OSError, ValueError):
        return ""


def _refuse_others(directory: Path) -> None:
    with disk_errors(directory):
        found = {path.name for path in directory.iterdir()} if directory.exists() else set()
    if others := sorted(name for name in found - {_DIGEST, _CACHE} if not name.startswith((".cache-", f".{_DIGEST}"))):
        raise CacheUnfit(
            f"cache directory has unexpected contents: {directory} holds {', '.join(others[:5])}",
            advice="Name an empty directory with --cache-dir.",
        )


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


def _write(packages: list[PackageBlobs], catalog: Catalog, path: Path) -> dict[str, Any]:
    """Write the records, and give the index of them."""
    writer = _Writer(path)
    try:
        parts: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        bundles = {package.name: _bundles(package, writer, parts) for package in packages}
        named = [_package(package, catalog) for package in packages]
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


def _package(package: PackageBlobs, catalog: Catalog) -> dict[str, Any]:
    known = catalog.packages[package.name]
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
    from opmkit.index.catalog.blobs import EntryBlob

    for package in packages:
        for channel in package["channels"]:
            for name, replaces, skips, skip_range in channel["entries"]:
                entry = EntryBlob(name, replaces, tuple(skips), skip_range)
                head = catalogbundles.place(package["name"], channel["name"], entry, edges=True)
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
