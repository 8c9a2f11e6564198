"""Errors of the disk as StoreError, and writing to it."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import LimitExceeded, StoreError
from opmkit.imagetools.hints import Hint, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

MAX_SETTINGS_SIZE = 16 << 20
"""Maximum size of files with settings, credentials or certificates, in bytes."""
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


def read_limited(path: Path, limit: int = MAX_SETTINGS_SIZE) -> bytes:
    """Return the content of a file that the user names, which can also be a pipe.

    Raises:
        LimitExceeded: The file is larger than ``limit`` bytes; no more are read.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise LimitExceeded(f"{path}: larger than {limit} bytes", hint="check the path")
    return content


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a tree for reading, without waiting for the writer of a pipe.

    Raises:
        StoreError: The path is a pipe, a socket, a device or a directory.
        OSError: The file cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise StoreError(f"{path}: not a regular file", hint="remove it from the directory")
    return path.open("rb")


def sync_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
