"""Locks between processes on one machine."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from opmkit.core import interrupts
from opmkit.core.errors import DiskError
from opmkit.core.files import FILE_MODE, disk_errors
from opmkit.core.private_files import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.005
"""Threads that cache their first layer wait for one of them to create the layout, which takes little time."""
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP})
_log = logging.getLogger(__name__)


@contextmanager
def locked_file(path: Path, name: str, timeout: float, mode: int = FILE_MODE) -> Iterator[None]:
    """Hold the lock of ``name`` on a file within the block; the file is created with ``mode`` if it does not exist.

    The operating system releases the lock when the process ends. Nothing is locked on network file systems without
    locks.

    Raises:
        DiskError: The file cannot be opened or is a symbolic link, or another process or thread held the lock for
            ``timeout`` seconds.
    """
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(descriptor, path):
            if time.monotonic() > deadline:
                raise DiskError(
                    f"{name}: timed out after waiting {timeout:.0f} seconds for the lock",
                    hint="wait for the other process that is changing it, or end that process",
                )
            interrupts.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, path: Path) -> bool:
    """Lock an open file unless another process or thread holds the lock; return whether it is locked now."""
    with disk_errors(path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return True


@contextmanager
def locked_directory(directory: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock on a directory within the block, for one writer or for readers (LOCK_SH).

    Nothing is locked if the directory does not exist, or on network file systems without locks.

    Raises:
        DiskError: The directory cannot be opened.
    """
    descriptor = -1
    with disk_errors(directory), suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if descriptor < 0:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


class NamedLocks:
    """Reentrant locks of one user for several names, which are acquired together.

    The operating system releases them when the process ends. They are best effort: nothing is locked if the directory
    of the lock files is not usable.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare the locks without acquiring them."""
        self._names = sorted(set(names))  # acquired in the same order by all processes, which rules out deadlocks
        self._held = False

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold all locks within the block; raise DiskError if that takes longer than TIMEOUT_SECONDS for one."""
        with ExitStack() as stack:
            if not self._held:
                for name, path in self._files():
                    stack.enter_context(locked_file(path, name, TIMEOUT_SECONDS))
                stack.callback(setattr, self, "_held", False)
                self._held = True
            yield

    def _files(self) -> list[tuple[str, Path]]:
        try:
            return [(name, _path(name)) for name in self._names]
        except DiskError as error:
            _log.warning("%s; continuing without locks against other processes", error.message)
            return []


def _path(name: str) -> Path:
    return private_directory() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
