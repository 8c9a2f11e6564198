"""Many bundles at once."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.readahead import ReadAhead
from opmkit.bundle.source import BundleSource
from opmkit.imagetools.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools import ContainerTool

WORKERS = 8
_AHEAD = 2 * WORKERS  # bounds the memory: what was pulled waits here until it is asked for


def pull_bundles(
    tool: ContainerTool, references: Sequence[str], *, warn: Callable[[str], None], progress: Progress = SILENT
) -> Iterator[Bundle]:
    """Read bundles in parallel and give them in the order of ``references``, each reference once.

    A reference is what BundleSource.parse reads. Remarks on a bundle go to ``warn``. The first failure, in that order,
    ends it.

    Raises:
        BundleError: if an image or directory is no bundle, or one that no catalog can hold.
        ImageToolsError: if one can't be read.
    """
    sources = [BundleSource.parse(reference) for reference in dict.fromkeys(references)]
    progress.begin("Pulling bundles", len(sources), unit="bundles")
    cache = ManifestCache()
    with ReadAhead(cache) as ahead:
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="pull")
        try:
            for source, files in _fetch(pool, tool, sources, ahead):
                bundle = parse_bundle_files(source, files.result(), cache=cache)
                for warning in (*bundle.warnings, source.remark):
                    if warning:
                        warn(f"{source.text}: {warning}")
                progress.advance(1)
                yield bundle
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            progress.end()


def _fetch(
    pool: ThreadPoolExecutor, tool: ContainerTool, sources: Sequence[BundleSource], ahead: ReadAhead
) -> Iterator[tuple[BundleSource, Future[dict[str, bytes]]]]:
    """Keep threads pulling, some bundles ahead of the one that is asked for; they have the manifests read ahead."""

    def fetch(source: BundleSource) -> dict[str, bytes]:
        files = fetch_bundle_files(tool, source)
        ahead.submit(content for path, content in files.items() if path.startswith("manifests/"))
        return files

    waiting: deque[tuple[BundleSource, Future[dict[str, bytes]]]] = deque()
    for source in sources:
        waiting.append((source, pool.submit(fetch, source)))
        if len(waiting) > _AHEAD:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()
