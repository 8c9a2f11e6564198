"""Named locks between processes of one user on one machine."""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.store.private import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from filelock import FileLock

TIMEOUT_SECONDS = 600.0
_log = logging.getLogger(__name__)


class NamedLocks:
    """Reentrant locks for several names, which are acquired together.

    The operating system releases them when the process ends. They are best effort: nothing is locked if the directory
    of the lock files is not usable.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare the locks without acquiring them."""
        self._names = sorted(set(names))  # acquired in the same order by all processes, which rules out deadlocks
        self._locks: list[FileLock] | None = None

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold all locks within the block; raise StoreError if that takes longer than TIMEOUT_SECONDS for one."""
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
        except StoreError as error:
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
        raise StoreError(message, hint=hint) from error
