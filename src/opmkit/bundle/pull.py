"""Pull and parse many bundles concurrently."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import ManifestPrefetcher
from opmkit.bundle.source import BundleSource, path_or_image
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools import ContainerTool


def pull_bundles(
    tool: ContainerTool, references: Sequence[str], *, warn: Callable[[str], None], progress: Progress = NO_PROGRESS
) -> Iterator[Bundle]:
    """Pull bundles concurrently and yield them in the order of ``references``, without duplicates.

    Args:
        tool: Reads the images.
        references: Sources as `BundleSource.parse` reads them.
        warn: Called with each warning about a bundle.
        progress: Reports the number of bundles.

    Raises:
        BundleError: if an image or directory is not a bundle, or no catalog can contain it. The first error ends the
            iteration.
        ImageToolsError: if an image or directory cannot be read.
    """
    sources = [BundleSource.parse(reference) for reference in dict.fromkeys(references)]
    progress.begin("Pulling bundles", len(sources), unit="bundles")
    cache = ManifestCache()
    with (
        ManifestPrefetcher(cache) as prefetcher,
        closing(ordered_parallel_map(partial(_fetch, tool, prefetcher), sources)) as fetched,
    ):
        try:
            for source, files in fetched:
                bundle = parse_bundle_files(source, files.result(), cache=cache)
                for warning in (*bundle.warnings, source.warning):
                    if warning:
                        warn(f"{source.text}: {warning}")
                progress.advance(1)
                yield bundle
        finally:
            progress.end()


def _fetch(tool: ContainerTool, prefetcher: ManifestPrefetcher, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle and submit its manifests for parsing."""
    with path_or_image(source.text):
        files = fetch_bundle_files(tool, source)
    prefetcher.submit_files(files)
    return files
