"""Many bundle images at once."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_image
from opmkit.bundle.manifest import ManifestCache
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
    """Read bundle images in parallel and give them in the order of ``references``, each reference once.

    Remarks on a bundle go to ``warn``. The first failure, in that order, ends it.

    Raises:
        BundleError: if an image is no bundle, or one that no catalog can hold.
        ImageToolsError: if an image can't be read.
    """
    cache = ManifestCache()
    waiting: deque[tuple[str, Future[dict[str, bytes]]]] = deque()

    def first() -> Bundle:
        # Parsing keeps one processor busy: the threads do what waits for the network.
        name, files = waiting.popleft()
        bundle = parse_bundle_image(name, files.result(), cache=cache)
        for warning in bundle.warnings:
            warn(f"{name}: {warning}")
        progress.advance(1)
        return bundle

    names = list(dict.fromkeys(references))
    progress.begin("Pulling bundles", len(names), unit="bundles")
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="pull")
    try:
        for name in names:
            waiting.append((name, pool.submit(fetch_bundle_files, tool, name)))
            if len(waiting) > _AHEAD:
                yield first()
        while waiting:
            yield first()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        progress.end()
