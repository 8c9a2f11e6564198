"""Many bundles at once."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import ReadAhead
from opmkit.bundle.parallel import side_by_side
from opmkit.bundle.source import BundleSource, path_or_image
from opmkit.imagetools.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools import ContainerTool


def pull_bundles(
    tool: ContainerTool, references: Sequence[str], *, warn: Callable[[str], None], progress: Progress = NO_PROGRESS
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
    with ReadAhead(cache) as ahead, closing(side_by_side(partial(_fetch, tool, ahead), sources)) as fetched:
        try:
            for source, files in fetched:
                bundle = parse_bundle_files(source, files.result(), cache=cache)
                for warning in (*bundle.warnings, source.remark):
                    if warning:
                        warn(f"{source.text}: {warning}")
                progress.advance(1)
                yield bundle
        finally:
            progress.end()


def _fetch(tool: ContainerTool, ahead: ReadAhead, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle, and have its manifests read ahead."""
    with path_or_image(source.text):
        files = fetch_bundle_files(tool, source)
    ahead.submit_files(files)
    return files
