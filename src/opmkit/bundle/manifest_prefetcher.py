"""Reading manifests ahead of their turn, in other processes.

Reading YAML keeps one processor busy, and a second thread of this process would only take turns with it. As a program,
this module is such a process: it reads the contents that come on its standard input and answers with the manifests.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from opmkit.bundle.manifest import ManifestCache, try_manifest
from opmkit.bundle.worker_process import Process, serve, spare_processors
from opmkit.imagetools.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.errors import InvalidDocument
    from opmkit.bundle.manifest import Manifest

WORTHWHILE = 2 << 20
"""Bytes of manifests that are read in less time than a process takes to start."""
_SMALL = 1 << 14
_MOST = 4


class ReadAhead:
    """Fills a cache with manifests that are going to be asked for, on the processors that are idle else.

    As a context manager; at its end it drops what it has not begun. Whatever goes wrong in the other processes, the
    manifests that they did not read are read in this one.
    """

    def __init__(self, cache: ManifestCache, processes: int | None = None) -> None:
        """Set up for so many processes, by default one for each processor but the one that this process has."""
        count = spare_processors(_MOST) if processes is None else processes
        self._cache = cache
        self._seen = 0
        self._pending: list[list[bytes]] = []
        self._idle = [Process(__name__) for _ in range(count)]
        self._threads = WorkerPool(count, "read") if count > 0 else None

    def submit_files(self, files: Mapping[str, bytes]) -> None:
        """Read the manifests among the files of a bundle, given by their paths."""
        self.submit(content for path, content in files.items() if path.startswith("manifests/"))

    def submit(self, contents: Iterable[bytes]) -> None:
        """Read these when there is time. What came last is read first: what came first is going to be asked for now."""
        large = [content for content in contents if len(content) > _SMALL]
        self._seen += sum(map(len, large))
        if self._threads is not None and self._seen > WORTHWHILE:
            self._pending.append(large)
            with contextlib.suppress(RuntimeError):  # it is over
                self._threads.submit(self._read)

    def _read(self) -> None:
        process = self._idle.pop()
        try:
            claims = [claim for content in self._pending.pop() if (claim := self._cache.claim(content)).mine]
            contents = [claim.content for claim in claims]
            self._cache.settle(claims, (contents and process.ask(contents)) or map(try_manifest, contents))
        finally:
            self._idle.append(process)

    def __enter__(self) -> Self:
        """The same."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the processes."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.stop()


def _read_all(contents: list[bytes]) -> list[Manifest | InvalidDocument | None]:
    return [try_manifest(content) for content in contents]


if __name__ == "__main__":
    serve(_read_all)
