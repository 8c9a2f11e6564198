"""On-disk cache of results, keyed by content digest."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class ResultCache:
    """A directory with one file per result, named by the digest of the content and the ``key``.

    Errors in reading and writing are ignored: such a result is computed again.
    """

    directory: Path
    key: str

    @classmethod
    def open(cls, directory: Path, parts: Iterable[str]) -> ResultCache:
        """Return a cache of results that also depend on ``parts``, such as options and the digest of the code."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\0")
        return cls(directory, digest.hexdigest())

    def get(self, content: str) -> bytes | None:
        """Return the result for the content with this digest, or None."""
        path = self._path(content)
        try:
            result = path.read_bytes()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # pruning removes the results that were not used for longest
        return result

    def contains(self, content: str) -> bool:
        """Return whether there is a result for the content with this digest."""
        try:
            return self._path(content).is_file()
        except OSError:
            return False

    def put(self, content: str, result: bytes) -> None:
        """Store the result for the content with this digest."""
        path = self._path(content)
        with suppress(OSError):
            make_directory(path.parent)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(result)
            Path(file.name).replace(path)

    def _path(self, content: str) -> Path:
        digest = hashlib.sha256(f"{self.key}\0{content}".encode()).hexdigest()
        return self.directory / digest[:2] / f"{digest[2:]}.json"


def files_digest(contents: Mapping[str, bytes]) -> str:
    """Return a digest of files, given by their paths, as ``files:<hex>``."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"files:{digest.hexdigest()}"


def code_digest(package: str) -> str:
    """Return a digest of the source and data files of an installed package and its subpackages."""
    digest = hashlib.sha256()
    pending = [files(package)]
    while pending:
        for entry in sorted(pending.pop().iterdir(), key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                pending.append(entry)
            elif entry.name.endswith((".py", ".json")):
                digest.update(entry.read_bytes())
    return digest.hexdigest()


CACHE_DIRECTORY = "results"
