"""Pull many bundles: images with concurrent requests, directories in worker processes.

As a program, this module is a worker process that loads directories.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files, read_bundle_directory
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import MAX_PROCESSES, ManifestPrefetcher
from opmkit.bundle.source import BundleSource, path_or_image
from opmkit.core.errors import OpmkitError
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import (
    LOOKAHEAD,
    WORKERS,
    WorkerPool,
    WorkerProcess,
    ordered_parallel_map,
    serve_requests,
    spare_cpu_count,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools.tool import ContainerTool


MIN_DIRECTORIES = 16
"""Number of directories that are loaded in less time than processes take to start."""
_MAX_BATCH = 32
"""Directories that a process loads in a row: the versions of an operator have most manifests in common."""
_BATCHES_AHEAD = 4
"""Batches per process that are loaded ahead: batches take different times, and wait for the slowest one."""
_CACHE_BYTES = 8 << 20
"""JSON of manifests that a process remembers, more than a version has."""


class BundleFetcher:
    """Fetches the files of bundles, those of the first bundles before they are asked for. Thread-safe.

    A context manager; leaving it cancels what was not asked for.
    """

    def __init__(self, tool: ContainerTool, references: Sequence[str] = ()) -> None:
        """Start to fetch the first of ``references``."""
        self._tool = tool
        first = list(dict.fromkeys(references))[:LOOKAHEAD]
        self._pool = WorkerPool(WORKERS, "fetch")
        self._started = {reference: self._pool.submit(self._fetch, reference) for reference in first}

    def fetch(self, source: BundleSource) -> dict[str, bytes]:
        """Return the files of a bundle; raises the errors of `fetch_bundle_files`."""
        started = self._started.pop(source.text, None)
        with path_or_image(source.text):
            return started.result() if started else fetch_bundle_files(self._tool, source)

    def _fetch(self, reference: str) -> dict[str, bytes]:
        return fetch_bundle_files(self._tool, BundleSource.parse(reference))

    def __enter__(self) -> Self:
        """Return the fetcher."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop fetching."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def pull_bundles(
    fetcher: BundleFetcher, references: Sequence[str], *, warn: Callable[[str], None], progress: Progress = NO_PROGRESS
) -> Generator[Bundle]:
    """Pull bundles concurrently and yield them in the order of ``references``, without duplicates.

    Args:
        fetcher: Reads the images.
        references: Sources as `BundleSource.parse` reads them.
        warn: Called with each warning about a bundle.
        progress: Reports the number of bundles.

    Raises:
        BundleError: An image or directory is not a bundle, or no catalog can contain it. The first error ends the
            iteration.
        ImageToolsError: An image or directory cannot be read.
    """
    sources = [BundleSource.parse(reference) for reference in dict.fromkeys(references)]
    progress.begin("Pulling bundles", len(sources), unit="bundles")
    spare = spare_cpu_count(MAX_PROCESSES)
    if spare and len(sources) > MIN_DIRECTORIES and all(isinstance(source.location, Path) for source in sources):
        bundles = _load_in_processes(sources, spare + 1)
    else:
        bundles = _load_in_threads(fetcher, sources)
    with closing(bundles):
        try:
            for source, bundle in zip(sources, bundles, strict=True):
                for warning in (*bundle.warnings, source.warning):
                    if warning:
                        warn(f"{source.text}: {warning}")
                progress.advance(1)
                yield bundle
        finally:
            progress.end()


def _load_in_threads(fetcher: BundleFetcher, sources: Sequence[BundleSource]) -> Generator[Bundle]:
    """Yield bundles that are fetched concurrently."""
    cache = ManifestCache()
    with (
        ManifestPrefetcher(cache) as prefetcher,
        closing(ordered_parallel_map(partial(_fetch, fetcher, prefetcher), sources)) as fetched,
    ):
        for source, files in fetched:
            yield parse_bundle_files(source, files.result(), cache=cache)


def _fetch(fetcher: BundleFetcher, prefetcher: ManifestPrefetcher, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle and submit its manifests for parsing."""
    files = fetcher.fetch(source)
    prefetcher.submit_files(files)
    return files


def _load_in_processes(sources: Sequence[BundleSource], count: int) -> Generator[Bundle]:
    """Yield the bundles of directories, loaded by ``count`` worker processes, for which this one mostly waits."""
    idle = [WorkerProcess(__name__) for _ in range(count)]

    def load(batch: Sequence[BundleSource]) -> Sequence[Bundle | OpmkitError]:
        process = idle.pop()
        try:
            return process.request(batch) or load_directories(batch, ManifestCache(_CACHE_BYTES))
        finally:
            idle.append(process)

    size = min(_MAX_BATCH, ceil(len(sources) / (2 * count)))
    batches = [sources[start : start + size] for start in range(0, len(sources), size)]
    try:
        with closing(ordered_parallel_map(load, batches, workers=count, lookahead=_BATCHES_AHEAD * count)) as loaded:
            for _, results in loaded:
                for result in results.result():
                    if isinstance(result, OpmkitError):
                        raise result
                    yield result
    finally:
        for process in idle:
            process.stop()


def load_directories(sources: Sequence[BundleSource], cache: ManifestCache) -> list[Bundle | OpmkitError]:
    """Load the bundles in directories, up to the first error, which is the last result."""
    results: list[Bundle | OpmkitError] = []
    for source in sources:
        try:
            files = read_bundle_directory(cast("Path", source.location), source.text)
            results.append(parse_bundle_files(source, files, cache=cache))
        except OpmkitError as error:
            return [*results, error]
    return results


if __name__ == "__main__":
    serve_requests(partial(load_directories, cache=ManifestCache(_CACHE_BYTES)))
