"""Parse manifests ahead of time in worker processes.

Parsing YAML is CPU-bound, so threads would not run it in parallel. As a program, this module is a worker process that
parses contents and responds with the manifests.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Self

from opmkit.bundle.manifest import ManifestCache, try_manifest
from opmkit.core.workers import LOOKAHEAD, WorkerPool, WorkerProcess, serve_requests, spare_cpu_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.manifest import ObjectManifest
    from opmkit.documents.errors import InvalidDocument

MIN_TOTAL_BYTES = 2 << 20
"""Bytes of manifests that are parsed in less time than a process takes to start."""
_MIN_BYTES = 1 << 14
MAX_PROCESSES = 4
_MAX_PENDING = 2 * LOOKAHEAD
"""Bundles that wait for a worker. The consumer has parsed the earlier ones, which would only use memory."""


class ManifestPrefetcher:
    """Fills a `ManifestCache` with manifests that will be needed, using the idle CPUs.

    The latest manifests are parsed first, since the consumer is about to parse the earlier ones. Manifests that the
    worker processes fail to parse are parsed in this process. A context manager; leaving it drops pending work.
    """

    def __init__(self, cache: ManifestCache, processes: int | None = None) -> None:
        """Prepare a number of worker processes, by default one per spare CPU."""
        count = spare_cpu_count(MAX_PROCESSES) if processes is None else processes
        self._cache = cache
        self._submitted_bytes = 0
        self._pending: deque[list[bytes]] = deque(maxlen=_MAX_PENDING)
        self._idle = [WorkerProcess(__name__) for _ in range(count)]
        self._threads = WorkerPool(count, "prefetch") if count > 0 else None

    def submit_files(self, files: Mapping[str, bytes]) -> None:
        """Parse the manifests among the files of a bundle, given by their paths."""
        self.submit(content for path, content in files.items() if path.startswith("manifests/"))

    def submit(self, contents: Iterable[bytes]) -> None:
        """Parse manifests when a worker is idle."""
        large = [content for content in contents if len(content) > _MIN_BYTES]
        self._submitted_bytes += sum(map(len, large))
        if self._threads is not None and self._submitted_bytes > MIN_TOTAL_BYTES:
            is_full = len(self._pending) == _MAX_PENDING
            self._pending.append(large)
            if not is_full:  # otherwise the call for the dropped bundle is for this one
                with contextlib.suppress(RuntimeError):  # after shutdown
                    self._threads.submit(self._prefetch)

    def _prefetch(self) -> None:
        process = self._idle.pop()
        try:
            pending = self._pending.pop() if self._pending else ()
            claims = [claim for content in pending if (claim := self._cache.claim(content)).mine]
            contents = [claim.content for claim in claims]
            self._cache.settle(claims, (contents and process.request(contents)) or map(try_manifest, contents))
        finally:
            self._idle.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the worker processes."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.stop()


def _parse_all(contents: list[bytes]) -> list[ObjectManifest | InvalidDocument | None]:
    return [try_manifest(content) for content in contents]


if __name__ == "__main__":
    serve_requests(_parse_all)
