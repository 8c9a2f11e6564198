"""On-disk cache of results, keyed by digests of the content and of the code that they depend on."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import FILE_MODE, make_directory
from opmkit.core.private_files import UntrustedFile, check_private, open_private, warn_untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CACHE_DIRECTORY = "results"
"""Directory of the embedded store with the caches."""
_CHECKSUM_SIZE = hashlib.sha256().digest_size


class ResultCache:
    """A directory with one file per result, named by the digest of the content and the ``key``.

    Each file begins with a digest of its name and of the result: one that is damaged, or was moved to the name of
    another, is ignored, and so is one that another user may have written. Errors in reading and writing are ignored,
    too: such a result is computed again.
    """

    __slots__ = ("_checked", "_usable", "directory", "key")

    def __init__(self, directory: Path, key: str) -> None:
        """Create a cache; the directory is created when a result is stored."""
        self.directory = directory
        self.key = key
        self._usable = True
        self._checked: set[str] = set()

    @classmethod
    def open(cls, store: Path, name: str, parts: Iterable[str]) -> ResultCache:
        """Return a cache in the embedded store ``store``.

        The results also depend on ``parts``, such as options and the digest of the code. A store of another user, or to
        which others can write, is not used, which is logged.
        """
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\0")
        cache = cls(store / CACHE_DIRECTORY / name, digest.hexdigest())
        cache._check(cache.directory)
        return cache

    @property
    def is_empty(self) -> bool:
        """Whether no result was ever stored in the directory."""
        return not (self._usable and self.directory.exists())

    def get(self, content: str) -> bytes | None:
        """Return the result for the content with this digest, or None."""
        name = self._name(content)
        if not self._may_use(name[:2]):
            return None
        try:
            with open(open_private(self._path(name)), "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
                stored = file.readall()
                with suppress(OSError):  # it may belong to root
                    os.utime(file.fileno())  # pruning removes the results that were not used for longest
        except (OSError, UntrustedFile):
            return None
        result = stored[_CHECKSUM_SIZE:]
        return result if stored[:_CHECKSUM_SIZE] == _checksum(name, result) else None

    def contains(self, content: str) -> bool:
        """Return whether there is a result for the content with this digest."""
        return self.get(content) is not None

    def put(self, content: str, result: bytes) -> None:
        """Store the result for the content with this digest."""
        name = self._name(content)
        if not self._may_use(name[:2]):
            return
        path = Path(self._path(name))
        part = path.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
        with suppress(OSError):
            make_directory(path.parent)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
                file.write(_checksum(name, result) + result)
            part.replace(path)

    def _name(self, content: str) -> str:
        return hashlib.sha256(f"{self.key}\0{content}".encode()).hexdigest()

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name[:2]}/{name[2:]}.json"

    def _may_use(self, subdirectory: str) -> bool:
        """Return whether the cache can be used; a subdirectory is checked once."""
        if self._usable and subdirectory not in self._checked:
            self._check(self.directory / subdirectory)
            self._checked.add(subdirectory)
        return self._usable

    def _check(self, directory: Path) -> None:
        store = self.directory.parents[1]
        try:
            check_private(store, directory)
        except UntrustedFile as error:
            self._usable = False
            warn_untrusted(store, error)


def _checksum(name: str, result: bytes) -> bytes:
    return hashlib.sha256(name.encode() + result).digest()


def files_digest(contents: Mapping[str, bytes]) -> str:
    """Return a digest of files, given by their paths, as ``files:<hex>``."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"files:{digest.hexdigest()}"


def code_digest(*packages: str) -> str:
    """Return a digest of installed packages, with their subpackages, and of all that their code may depend on.

    That is Python and the installed distributions: their names, versions and recorded files.
    """
    roots = (path for package in packages for path in import_module(package).__path__)
    recorded = sorted((path.rpartition("/")[2], _record_digest(path)) for path in installed_distributions())
    return hashlib.sha256(repr((tree_digest(roots, (".py", ".json")), sys.version, recorded)).encode()).hexdigest()


def _record_digest(metadata: str) -> str:
    """Return a digest of the list of a distribution's files, which has their digests; "" without a list."""
    try:
        with open(f"{metadata}/RECORD", "rb") as file:  # noqa: PTH123 - every command that uses a cache reads all of them
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def tree_digest(roots: Iterable[str], suffixes: tuple[str, ...] = ("",)) -> str:
    """Return a digest of the files with certain suffixes below directories, and of single files.

    Raises:
        OSError: A file cannot be read.
    """
    digest, seen = hashlib.sha256(), set()
    pending = [(root, root.rpartition("/")[2]) for root in roots]
    while pending:
        path, name = pending.pop()
        try:
            status = os.stat(path)  # noqa: PTH116 - every command that uses a cache reads all of them
        except FileNotFoundError:  # recorded, but removed, or a link to nothing
            continue
        if stat.S_ISREG(status.st_mode) and name.endswith(suffixes):
            with open(path, "rb") as file:  # noqa: PTH123
                content = file.read()
            digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
        elif stat.S_ISDIR(status.st_mode) and (status.st_dev, status.st_ino) not in seen:  # links can lead upwards
            seen.add((status.st_dev, status.st_ino))
            names = sorted(os.listdir(path))  # noqa: PTH208
            pending += [(f"{path}/{entry}", f"{name}/{entry}") for entry in names if entry != "__pycache__"]
    return digest.hexdigest()


@cache
def installed_distributions() -> tuple[str, ...]:
    """Return the paths of the metadata of all installed distributions, such as ``DIRECTORY/ryaml-0.5.1.dist-info``.

    An entry of ``sys.path`` that contains distributions in another form, such as an archive, stands for itself.
    """
    found = []
    for location in sys.path:
        try:
            names = os.listdir(location or ".")  # noqa: PTH208 - faster than pathlib
        except FileNotFoundError:
            continue
        except OSError:  # among others of an archive
            found.append(location)
            continue
        found += [f"{location or '.'}/{name}" for name in names if name.endswith("-info")]
        if "EGG-INFO" in names:
            found.append(location)
    return tuple(found)
