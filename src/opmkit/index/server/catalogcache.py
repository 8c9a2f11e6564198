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
from typing import Any

import orjson

from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.catalog.tree import catalog_files
from opmkit.index.errors import CatalogError

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
    from opmkit.index.server.catalogbuild import read_catalog, write_records  # a start with a cache does without

    catalog = read_catalog(root)
    with disk_errors(directory):
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        (directory / _DIGEST).unlink(missing_ok=True)  # from here to the end there is no cache
        made = Path(tempfile.mkdtemp(prefix=".cache-", dir=directory))
        try:
            index = write_records(catalog, made / _RECORDS)
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
