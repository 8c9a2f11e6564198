"""Load and build the cache of a catalog in operator-registry's format ``json``, which its servers read as well.

The digest covers the catalog and the cache, so that a cache that is incomplete, modified or built from other files is
never used. It is written last; until then the file is empty, which is not a valid digest.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.core.files import disk_errors, make_directory
from opmkit.core.hints import Hint
from opmkit.core.locks import locked_directory
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.server.json_cache.digest import (
    CONTENT,
    DIGEST,
    DIRECTORY_MODE,
    FILE_MODE,
    PACKAGES,
    POGREB,
    bundle_file,
    check_file_types,
    create_file,
    hash_tree,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.server.json_cache.build import LoadedCatalog

_NEW_CONTENT, _NEW_DIGEST = f".{CONTENT}-", f".{DIGEST}-"


class InvalidCache(CatalogError):
    """A cache that is required to be valid for the catalog but is not, or a directory with other files."""


class JsonCache(Struct, frozen=True):
    """A valid cache: the index of packages, and the directory with a file for each bundle in each channel.

    ``digest`` covers the cache and the catalog; it is empty for a private cache. ``writing`` is a descriptor whose end
    is reached when the files of bundles are written, or None if they are.
    """

    packages: dict[str, Any]
    directory: Path
    digest: str
    writing: int | None = None

    def read_bundle(self, package: str, channel: str, bundle: str) -> bytes:
        """Return the file of a bundle in a channel, when it is written; raises DiskError and CatalogError."""
        path = self.directory / bundle_file(package, channel, bundle)
        with disk_errors(path):
            if self.writing is not None:
                os.read(self.writing, 1)
            return path.read_bytes()


def load_cache(root: Path, directory: Path, *, enforce: bool) -> JsonCache:
    """Return the cache in ``directory`` of the catalog in ``root``; unless it is valid, it is built.

    With ``enforce`` it must be valid already.

    Raises:
        InvalidCache: The cache is not valid but must be, or the directory contains other files.
        InvalidCatalog: The catalog is not valid; the error lists all findings.
        DiskError: A file cannot be read or written.
    """
    _check_content(directory)
    catalog = hash_tree(root)
    with locked_directory(directory, fcntl.LOCK_SH):
        stored = _stored_digest(directory)
        computed = _digest(catalog, directory / CONTENT) if stored else ""
        if stored and stored == computed:
            return _load(directory, stored)
    if enforce:
        raise InvalidCache(
            f'cache requires rebuild: cache reports digest as "{stored}", but computed digest is "{computed}"'
            if stored
            else f"read existing cache digest: {directory / DIGEST}: not found or empty",
            hint=Hint.any_of(
                Hint("build the cache with {}", IndexSetting.CACHE_ONLY),
                Hint("disable {}", IndexSetting.CACHE_ENFORCE_INTEGRITY),
            ),
        )
    return _build(root, catalog, directory)


def build_private_cache(root: Path, directory: Path) -> JsonCache:
    """Build a cache of the catalog in ``root`` for this server alone, which needs no digest.

    Raises:
        InvalidCatalog: The catalog is not valid; the error lists all findings.
        DiskError: A file cannot be read or written.
    """
    finish_private_cache(begin_private_cache(root, directory), directory)
    return load_private_cache(directory)


def begin_private_cache(root: Path, directory: Path) -> LoadedCatalog:
    """Read a catalog, and write its private cache without the files of bundles; raises like `build_private_cache`."""
    from opmkit.server.json_cache.build import load_catalog, write_index

    check_file_types(root)
    loaded = load_catalog(root)
    with disk_errors(directory):
        (directory / CONTENT).mkdir(parents=True)
        write_index(loaded, directory / CONTENT)
    return loaded


def finish_private_cache(catalog: LoadedCatalog, directory: Path) -> None:
    """Write the files of bundles to a private cache; raises DiskError."""
    from opmkit.server.json_cache.build import write_bundles

    with disk_errors(directory):
        write_bundles(catalog, directory / CONTENT)


def load_private_cache(directory: Path, writing: int | None = None) -> JsonCache:
    """Return a private cache, for whose bundles readers wait until the end of ``writing`` (see `JsonCache`)."""
    return _load(directory, "", writing)


def is_current(root: Path, directory: Path, digest: str) -> bool:
    """Return whether the catalog in ``root`` and its cache still have a digest; raises DiskError."""
    return _digest(hash_tree(root), directory / CONTENT) == digest


def unreadable_format(directory: Path) -> str:
    """Return the name of the cache format in ``directory`` that only operator-registry reads, or an empty string."""
    names = _names(directory)
    return POGREB if POGREB in names and not {DIGEST, CONTENT} <= names else ""


def remove_unreadable(directory: Path) -> None:
    """Remove a cache in the other format, which operator-registry prefers; raises DiskError."""
    with disk_errors(directory):
        if (directory / POGREB).is_dir():
            shutil.rmtree(directory / POGREB)


def _build(root: Path, catalog: int, directory: Path) -> JsonCache:
    """Build the cache of a catalog.

    The hash ``catalog`` was computed before reading it, so that the digest does not match if it changes meanwhile.
    """
    import secrets  # slow to import

    from opmkit.server.json_cache.build import load_catalog, write_bundles, write_index  # not needed for a valid cache

    loaded = load_catalog(root)
    with disk_errors(directory), _umask(0), _claimed(directory):
        stored = _stored_digest(directory)
        if stored and stored == _digest(catalog, directory / CONTENT):
            return _load(directory, stored)  # another process has built it
        new = directory / f"{_NEW_CONTENT}{secrets.token_hex(8)}"
        new.mkdir(DIRECTORY_MODE)
        try:
            write_index(loaded, new)
            write_bundles(loaded, new)
            digest = _digest(catalog, new)
            _install(new, directory, digest)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return _load(directory, digest)


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    """Set the mask of new files, since a cache may be served by another user of the same group."""
    previous = os.umask(mask)
    try:
        yield
    finally:
        os.umask(previous)


@contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """Create the directory if needed, and keep other processes from building in it at the same time."""
    make_directory(directory, DIRECTORY_MODE)
    with locked_directory(directory):
        (directory / DIGEST).touch(FILE_MODE)  # marks the directory as a cache, which is not valid yet
        make_directory(directory / CONTENT, DIRECTORY_MODE)
        for path in (*directory.glob(f"{_NEW_CONTENT}*"), *directory.glob(f"{_NEW_DIGEST}*")):
            _remove(path)  # left over from a process that was killed
        yield


def _install(new: Path, directory: Path, digest: str) -> None:
    """Replace the content of the cache, which is not valid until the digest is written."""
    _write_digest(directory, "")
    content = directory / CONTENT
    for path in content.iterdir():
        _remove(path)
    new.rename(content)  # an empty directory is replaced atomically
    _write_digest(directory, digest)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _write_digest(directory: Path, digest: str) -> None:
    import secrets

    pending = directory / f"{_NEW_DIGEST}{secrets.token_hex(8)}"
    create_file(pending, digest.encode())
    pending.rename(directory / DIGEST)


def _load(directory: Path, digest: str, writing: int | None = None) -> JsonCache:
    with disk_errors(directory):
        packages: dict[str, Any] = orjson.loads((directory / CONTENT / PACKAGES).read_bytes())
    return JsonCache(packages, directory / CONTENT, digest, writing)


def _digest(catalog: int, content: Path) -> str:
    """Return the digest of a cache of the catalog with this hash."""
    return f"{hash_tree(content, catalog) if content.is_dir() else catalog:016x}"


def _stored_digest(directory: Path) -> str | None:
    """Return the stored digest of a cache, or None if there is none."""
    with disk_errors(directory):
        try:
            return (directory / DIGEST).read_text(errors="replace").strip()
        except FileNotFoundError:
            return None


def _names(directory: Path) -> set[str]:
    with disk_errors(directory):
        return {path.name for path in directory.iterdir()} if directory.exists() else set()


def _check_content(directory: Path) -> None:
    """Raise InvalidCache unless the directory is empty or has a cache in the format, complete or not.

    A link in it could lead to files of others, which would be served, or removed when the cache is built again.
    """
    names = {name for name in _names(directory) if not name.startswith((_NEW_CONTENT, _NEW_DIGEST))} - {POGREB}
    if not (names <= {DIGEST} or {DIGEST, CONTENT} <= names):
        raise InvalidCache(
            f"cache directory has unexpected contents: {directory} contains {', '.join(sorted(names)[:5])}",
            hint=Hint("pass an empty directory with {}", IndexSetting.CACHE_DIR),
        )
    with disk_errors(directory):
        for parent, directories, files in os.walk(directory):
            for name in (*directories, *files):
                path = Path(parent, name)
                if path.is_symlink():
                    raise InvalidCache(f"cache directory has unexpected contents: {path} is a link", hint="remove it")
