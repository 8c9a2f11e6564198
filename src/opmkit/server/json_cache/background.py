"""Build of a private cache in another process, while this one prepares to serve.

The server starts when the catalog is read and valid; the files of bundles follow. The memory for the documents of the
catalog is that of the other process, which ends then.
"""

from __future__ import annotations

import gc
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

from opmkit.server.json_cache.cache import (
    begin_private_cache,
    build_private_cache,
    finish_private_cache,
    load_private_cache,
)
from opmkit.server.supervisor import ended_process, fork_process

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from opmkit.server.json_cache.cache import JsonCache

_VALID = b"\n"


class BackgroundBuild:
    """A process that builds a private cache. It writes to a pipe when the catalog is valid, and then the bundles."""

    def __init__(self, root: Path, scratch: Path) -> None:
        """Start to build a cache of the catalog in ``root``, in a new directory below ``scratch``."""
        self._root = root
        self._scratch = scratch
        self._directory = scratch / "cache"
        self._reader, writer = os.pipe()
        self._process = fork_process(partial(self._build, writer))
        os.close(writer)

    def _build(self, writer: int) -> None:
        os.close(self._reader)
        gc.disable()  # documents have no cycles, and the process ends soon
        try:
            catalog = begin_private_cache(self._root, self._directory)
        except Exception:  # noqa: BLE001 - the other process will raise it
            return
        os.write(writer, _VALID)
        finish_private_cache(catalog, self._directory)

    def open(self) -> JsonCache:
        """Return the cache as soon as the catalog is valid; raises what `build_private_cache` raises.

        If the process has failed, this one builds the cache, which raises the same error.
        """
        if os.read(self._reader, len(_VALID)):
            return load_private_cache(self._directory, self._reader)
        return build_private_cache(self._root, self._scratch / "retry")

    def check(self) -> None:
        """Raise ServerError if the process has failed."""
        process, status = os.waitpid(self._process, os.WNOHANG) if self._process else (0, 0)
        if process:
            self._process = 0
        if status:
            raise ended_process(process, os.waitstatus_to_exitcode(status))

    def __enter__(self) -> BackgroundBuild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Kill the process unless it has ended."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._reader)
