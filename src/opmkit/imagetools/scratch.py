"""Scratch directories: removed after use, and by a later process where theirs was killed.

The process that creates one holds a lock (flock) on it, which the operating system releases however the process ends.
A directory with the name of a scratch directory and without a lock is therefore stale.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUFFIX = ".scratch"
_NAME = re.compile(rf"\.?opm-(?:[a-z]+-)*[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_collected: set[str] = set()
_log = logging.getLogger(__name__)


class ScratchDirectory(tempfile.TemporaryDirectory[str]):
    """A temporary directory (mode 0700) in ``near``, else in that for temporary files; ``prefix`` begins ``opm-``.

    The first of a process in a directory removes the stale ones there.
    """

    def __init__(self, prefix: str, near: Path | None = None) -> None:
        """Create the directory; raises OSError."""
        parent = str(near or tempfile.gettempdir())
        if parent not in _collected:
            _collected.add(parent)
            remove_stale(Path(parent))
        while True:
            super().__init__(suffix=_SUFFIX, prefix=prefix, dir=parent)
            lock = _lock(self.name)
            if lock is None:  # another process took it for stale before it was locked
                super().cleanup()
                continue
            self._unlock = weakref.finalize(self, os.close, lock)
            return

    def cleanup(self) -> None:
        """Remove the directory and release its lock."""
        try:
            super().cleanup()
        finally:
            self._unlock()


def remove_stale(directory: Path) -> int:
    """Remove this user's scratch directories in ``directory`` whose processes have ended; return their number.

    Links and what belongs to others stay, as does what cannot be removed. Where others may rename this user's files,
    a name proves nothing, and all stays.
    """
    removed = 0
    with suppress(OSError):
        mode = directory.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return 0
        for path in [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]:
            with suppress(OSError), _abandoned(path):
                shutil.rmtree(path)
                removed += 1
                _log.debug("removed the scratch directory %s of a process that was killed", path)
    return removed


@contextmanager
def _abandoned(path: Path) -> Iterator[None]:
    """Lock a stale directory; raises OSError for one that is in use or is not this user's."""
    descriptor = os.open(path, _OPEN)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{path} is not a scratch directory of this user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _lock(path: str) -> int | None:
    """Lock a new directory and return its descriptor; None if it has been removed meanwhile.

    On file systems without such locks it stays unlocked, and is never collected.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.fstat(descriptor).st_nlink and Path(path).exists():
        return descriptor
    os.close(descriptor)
    return None
