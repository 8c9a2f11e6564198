"""Locks by name among the processes of one user on one machine."""

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

LOCK_SECONDS = 600.0
_log = logging.getLogger(__name__)


class NamedLocks:
    """Locks for several names, taken together, and again by whoever has them.

    The operating system frees them when their process ends, however it does. Where there is no place for their files
    there are no locks: they are for those who can do without, if not as well.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Nothing is locked yet."""
        self._names = sorted(set(names))  # all take them in the same order, so that none wait for each other
        self._locks: list[FileLock] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Alone with the names; raises StoreError if another process keeps one for LOCK_SECONDS."""
        if self._locks is None:
            self._locks = self._open()
        with ExitStack() as stack:
            for name, lock in zip(self._names, self._locks, strict=False):
                stack.enter_context(_taken(lock, name))
            yield

    def _open(self) -> list[FileLock]:
        from filelock import FileLock

        try:
            return [FileLock(_path(name), timeout=LOCK_SECONDS) for name in self._names]
        except StoreError as error:
            _log.warning("%s; other processes on this machine are not waited for", error.message)
            return []


def _path(name: str) -> Path:
    return private_directory() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"


def _taken(lock: FileLock, name: str) -> AbstractContextManager[object]:
    from filelock import Timeout

    try:
        return lock.acquire()
    except Timeout as error:
        hint = "another process is busy with it: wait for that one, or end it"
        raise StoreError(f"{name} stays locked for {LOCK_SECONDS:.0f} seconds", hint=hint) from error
