"""Results kept by what they depend on, so that nothing is worked out twice."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.store.private import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Kept:
    """Files below a directory, one a result, named by the digest of what it is of and of the ``key``.

    It only ever saves time: what can't be read or written is not there.
    """

    directory: Path
    key: str

    @classmethod
    def open(cls, directory: Path, parts: Iterable[str]) -> Kept:
        """The results that depend on these parts as well, such as `code_digest` and options."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\0")
        return cls(directory, digest.hexdigest())

    def get(self, content: str) -> bytes | None:
        """The result for the content of that digest; None if there is none."""
        path = self._path(content)
        try:
            result = path.read_bytes()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # tells who makes room that it is in use
        return result

    def put(self, content: str, result: bytes) -> None:
        """Keep a result."""
        path = self._path(content)
        with suppress(OSError):
            make_directory(path.parent)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(result)
            Path(file.name).replace(path)

    def _path(self, content: str) -> Path:
        digest = hashlib.sha256(f"{self.key}\0{content}".encode()).hexdigest()
        return self.directory / digest[:2] / f"{digest[2:]}.json"


def digest_of_files(contents: Mapping[str, bytes]) -> str:
    """What a directory's files are known by."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"files:{digest.hexdigest()}"


def code_digest(package: str) -> str:
    """The digest of the code of a package of this program, and of those below it."""
    digest = hashlib.sha256()
    pending = [files(package)]
    while pending:
        for entry in sorted(pending.pop().iterdir(), key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                pending.append(entry)
            elif entry.name.endswith((".py", ".json")):
                digest.update(entry.read_bytes())
    return digest.hexdigest()
