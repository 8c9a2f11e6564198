"""Errors of the disk as StoreError, and writing to it."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.hints import Hint, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STORE = "OPM_STORE sets the directory of the embedded store"
_NOT_WRITABLE = f"use a directory that you can write to; {_STORE}"
_HINTS: dict[int, Hint | str] = {
    errno.ENOSPC: Hint.any_of(
        "free some space",
        "use another disk",
        Hint("empty the cache of the embedded image store with {}", Operation.PRUNE_STORE),
    ),
    errno.EDQUOT: "free some space within your quota or use another disk",
    errno.EACCES: _NOT_WRITABLE,
    errno.EPERM: _NOT_WRITABLE,
    errno.EROFS: f"use a directory on a disk that is not read-only; {_STORE}",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a parent of it is a file",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise a StoreError that names a file, by default ``path``, for an OSError of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # an error that a library derives from OSError
            raise
        hint = _HINTS.get(error.errno, "")
        raise StoreError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from error


def sync_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
