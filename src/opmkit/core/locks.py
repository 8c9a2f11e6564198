"""Locks between processes on one machine."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError
from opmkit.core.files import disk_errors, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from filelock import FileLock

TIMEOUT_SECONDS = 600.0
_log = logging.getLogger(__name__)


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
        self._locks: list[FileLock] | None = None

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold all locks within the block; raise DiskError if that takes longer than TIMEOUT_SECONDS for one."""
        if self._locks is None:
            self._locks = self._open()
        with ExitStack() as stack:
            for name, lock in zip(self._names, self._locks, strict=False):
                stack.enter_context(_acquire(lock, name))
            yield

    def _open(self) -> list[FileLock]:
        from filelock import FileLock

        try:
            return [FileLock(_path(name), timeout=TIMEOUT_SECONDS) for name in self._names]
        except DiskError as error:
            _log.warning("%s; continuing without locks against other processes", error.message)
            return []


def _path(name: str) -> Path:
    return private_directory() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"


def _acquire(lock: FileLock, name: str) -> AbstractContextManager[object]:
    from filelock import Timeout

    try:
        return lock.acquire()
    except Timeout as error:
        hint = "wait for the other process that is changing it, or end that process"
        message = f"{name}: timed out after waiting {TIMEOUT_SECONDS:.0f} seconds for the lock"
        raise DiskError(message, hint=hint) from error
