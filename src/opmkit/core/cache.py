"""On-disk cache of results, keyed by content digest, and the recognition of unchanged directories."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import FILE_MODE, make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ResultCache:
    """A directory with one file per result, named by the digest of the content and the ``key``.

    Errors in reading and writing are ignored: such a result is computed again.
    """

    __slots__ = ("directory", "key")

    def __init__(self, directory: Path, key: str) -> None:
        """Create a cache; the directory is created when a result is stored."""
        self.directory = directory
        self.key = key

    @classmethod
    def open(cls, directory: Path, parts: Iterable[str]) -> ResultCache:
        """Return a cache of results that also depend on ``parts``, such as options and the digest of the code."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\0")
        return cls(directory, digest.hexdigest())

    @property
    def is_empty(self) -> bool:
        """Whether no result was ever stored in the directory."""
        return not self.directory.exists()

    def get(self, content: str) -> bytes | None:
        """Return the result for the content with this digest, or None."""
        path = self._path(content)
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path takes longer than the file
                result = file.readall()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # pruning removes the results that were not used for longest
        return result

    def contains(self, content: str) -> bool:
        """Return whether there is a result for the content with this digest."""
        try:
            return Path(self._path(content)).is_file()
        except OSError:
            return False

    def put(self, content: str, result: bytes) -> None:
        """Store the result for the content with this digest."""
        path = Path(self._path(content))
        part = path.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
        with suppress(OSError):
            make_directory(path.parent)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
                file.write(result)
            part.replace(path)

    def _path(self, content: str) -> str:
        digest = hashlib.sha256(f"{self.key}\0{content}".encode()).hexdigest()
        return f"{self.directory}/{digest[:2]}/{digest[2:]}.json"


def files_digest(contents: Mapping[str, bytes]) -> str:
    """Return a digest of files, given by their paths, as ``files:<hex>``."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"files:{digest.hexdigest()}"


_SETTLED_NS = 10 * 10**9
"""Age from which a change is certain to get another timestamp than the next one, in nanoseconds.

Timestamps have a resolution of up to two seconds (FAT), and the clock of a file server may differ from this one.
"""


def tree_state(root: str, others: Iterable[str], max_entries: int) -> str | None:
    """Return a digest of the names and metadata of a directory tree and of other files, which may not exist.

    Each change of a file changes its inode's time (ctime), which programs cannot set. The digest also has the user,
    who may not be allowed to read the files.

    Returns:
        None if equal metadata do not prove equal contents: there are symbolic links or more than ``max_entries``
        entries, an entry changed in the last seconds and could change again in the same tick of the clock, or the tree
        cannot be read.
    """
    latest = time.time_ns() - _SETTLED_NS
    entries: list[object] = [os.geteuid()]
    pending = [root]
    try:
        for path in (root, *others):
            entries.append(path)
            with suppress(FileNotFoundError):
                if not _append_state(entries, os.lstat(path), latest):
                    return None
        while pending:
            directory = pending.pop()
            with os.scandir(directory) as found:
                for entry in sorted(found, key=lambda entry: entry.name):
                    entries.append(entry.path)
                    if not _append_state(entries, entry.stat(follow_symlinks=False), latest):
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
            if len(entries) > 2 * max_entries:
                return None
    except OSError:
        return None
    return hashlib.sha256(repr(entries).encode()).hexdigest()


def _append_state(entries: list[object], status: os.stat_result, latest: int) -> bool:
    """Append the metadata of an entry, and return whether it is no symbolic link and changed before ``latest``."""
    entries.append(
        (status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    )
    return max(status.st_mtime_ns, status.st_ctime_ns) < latest and not stat.S_ISLNK(status.st_mode)


def code_digest(*packages: str) -> str:
    """Return a digest of the source and data files of installed packages and their subpackages."""
    digest = hashlib.sha256()
    pending = [path for package in packages for path in import_module(package).__path__]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir() and entry.name != "__pycache__":
                    pending.append(entry.path)
                elif entry.name.endswith((".py", ".json")):
                    with open(entry.path, "rb") as file:  # noqa: PTH123 - every short command reads all of them
                        digest.update(file.read())
    return digest.hexdigest()


CACHE_DIRECTORY = "results"
