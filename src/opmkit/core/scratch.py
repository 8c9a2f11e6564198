"""Temporary directories that a later process removes if this one is killed."""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import re
import stat
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_SCRATCH_SUFFIX = ".scratch"
_SCRATCH_NAME = re.compile(rf"\.?opm-(?:[a-z]+-)*[a-z0-9_]{{8}}{re.escape(_SCRATCH_SUFFIX)}")
_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_cleaned_parents: set[str] = set()
_log = logging.getLogger(__name__)


class ScratchDirectory:
    """A locked temporary directory (mode 0700), by default in the system's directory for temporary files.

    The first one that a process creates in a parent directory removes stale ones there. As a context manager, it
    returns its path, and removes the directory at the end.

    Attributes:
        name: The path.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        """Create the directory. ``prefix`` must begin with ``opm-`` or ``.opm-``. Raises OSError."""
        import tempfile  # slow to import: many commands that import this module create none

        directory = str(parent or Path(tempfile.gettempdir()).resolve())  # not a link in the working directory
        if directory not in _cleaned_parents:
            _cleaned_parents.add(directory)
            remove_stale_directories(Path(directory))
        while True:
            self._directory = tempfile.TemporaryDirectory(suffix=_SCRATCH_SUFFIX, prefix=prefix, dir=directory)
            self.name = self._directory.name
            lock = _lock(self.name)
            if lock is None:  # another process removed it as stale before it was locked
                self._directory.cleanup()
                continue
            self._unlock = weakref.finalize(self, os.close, lock)
            return

    def __enter__(self) -> str:
        """Return the path."""
        return self.name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the directory."""
        self.cleanup()

    def cleanup(self) -> None:
        """Remove the directory and release its lock."""
        try:
            self._directory.cleanup()
        finally:
            self._unlock()


def finalize(owner: object, function: Callable[..., object], *arguments: object) -> weakref.finalize[..., object]:
    """Call a function when ``owner`` is destroyed, or else before the process ends; the result calls it at once.

    `weakref.finalize` alone is not enough: its handler of the end of the process may be one of those that do not run,
    because another module of the environment registered it before the command started.
    """
    finalizer = weakref.finalize(owner, function, *arguments)
    atexit.register(finalizer)
    return finalizer


def remove_stale_directories(directory: Path) -> int:
    """Remove this user's stale scratch directories in ``directory`` and return their number.

    Symbolic links, directories of other users and directories that cannot be removed are skipped. Nothing is removed
    from a directory in which other users may rename this user's files, since names prove nothing there.
    """
    import shutil

    removed = 0
    with suppress(OSError):
        mode = directory.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return 0
        for path in [path for path in directory.iterdir() if _SCRATCH_NAME.fullmatch(path.name)]:
            with suppress(OSError), _lock_stale(path):
                shutil.rmtree(path)
                removed += 1
                _log.debug("removed stale scratch directory %s", path)
    return removed


@contextmanager
def _lock_stale(path: Path) -> Iterator[None]:
    """Lock a stale directory; raises OSError if it is in use or not a scratch directory of this user."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{path} is not a scratch directory of this user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _lock(path: str) -> int | None:
    """Lock a new directory and return its file descriptor, or None if it was removed in the meantime.

    On file systems without flock the directory stays unlocked and is never removed as stale.
    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.fstat(descriptor).st_nlink and Path(path).exists():
        return descriptor
    os.close(descriptor)
    return None
