"""Load bundles from directories and images, many at a time."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from opmkit.bundle import labels
from opmkit.bundle.directory import DIRECTORIES, MAX_TOTAL_BYTES, read_files, reject_layout
from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.hint_terms import BundleOperation
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import MAX_PROCESSES, ManifestPrefetcher
from opmkit.bundle.parse import parse_bundle
from opmkit.bundle.source import BundleSource, path_or_image
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import LOOKAHEAD, WORKERS, WorkerPool, ordered_parallel_map, spare_cpu_count
from opmkit.documents import MAX_BYTES
from opmkit.documents.errors import FieldTypeError
from opmkit.imagetools.layer import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools.tool import ContainerTool, InspectedImage


_LIMITS = Limits(total_bytes=2 << 30, extracted_bytes=MAX_TOTAL_BYTES, file_bytes=MAX_BYTES, entries=50_000)
_READERS = 2
"""Threads that read directories, whose contents take memory until they are parsed."""
_INDEX_HINT = Hint("pass bundle images; {} lists those of an index", BundleOperation.LIST_INDEX_BUNDLES)


def load_bundle_directory(path: Path, *, cache: ManifestCache | None = None) -> Bundle:
    """Load the bundle in a directory that contains ``manifests/`` and ``metadata/``.

    Raises:
        NotABundle: There is no ``manifests/`` directory.
        InvalidBundle: No catalog can contain the bundle.
        DiskError: A file cannot be read.
    """
    return parse_bundle_files(BundleSource(str(path), path, ""), read_bundle_directory(path, str(path)), cache=cache)


def load_bundle_image(tool: ContainerTool, reference: str, *, cache: ManifestCache | None = None) -> Bundle:
    """Load the bundle in an image; the ``image`` of the bundle is ``reference``.

    Raises:
        NotABundle: The image is not a bundle.
        InvalidBundle: No catalog can contain the bundle.
        ImageToolsError: The image cannot be read.
    """
    source = BundleSource.from_image(reference)
    return parse_bundle_files(source, fetch_bundle_files(tool, source), cache=cache)


def fetch_bundle_files(tool: ContainerTool, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle from its image or directory, by their paths.

    Raises:
        NotABundle: The image or directory is not a bundle.
        InvalidBundle: A file of a directory is too large.
        ImageToolsError: The image or a file cannot be read.
    """
    if isinstance(source.location, Path):
        return read_bundle_directory(source.location, source.text)
    files = tool.read_tree(source.location, DIRECTORIES, _LIMITS)
    if not any(path.startswith("manifests/") for path in files):
        raise not_a_bundle(source.text, tool.inspect(source.location))
    return files


def parse_bundle_files(
    source: BundleSource, files: Mapping[str, bytes], *, cache: ManifestCache | None = None, strict: bool = True
) -> Bundle:
    """Parse the files of a bundle, see `parse_bundle`.

    Raises:
        InvalidBundle: No catalog can contain the bundle; the error names the source.
    """
    try:
        return parse_bundle(files, image=source.image, cache=cache, strict=strict)
    except (InvalidBundle, FieldTypeError) as error:
        raise InvalidBundle(f"{source.text}: {error.message}", hint=error.hint) from error


def read_bundle_directory(path: Path, name: str) -> dict[str, bytes]:
    """Read the files of the bundle in a directory, which is called ``name`` in errors.

    Raises:
        NotABundle: There is no ``manifests/`` directory.
        InvalidBundle: A file is too large.
        DiskError: A file cannot be read.
    """
    reject_layout(path, name)
    if not (path / "manifests").is_dir():
        raise NotABundle(f"{name} has no manifests directory", hint="pass the directory that contains manifests/")
    return {f"{name}/{file}": content for name in DIRECTORIES for file, content in read_files(path / name).items()}


def not_a_bundle(reference: str, image: InspectedImage) -> NotABundle:
    """Return an error that says what an image without manifests is, by its labels and entrypoint."""
    hint: Hint | str
    if labels.INDEX_DATABASE in image.labels:
        kind, hint = "it is an index image with a database", _INDEX_HINT
    elif labels.INDEX_CONFIGS in image.labels:
        kind, hint = "it is an index image with a file-based catalog", _INDEX_HINT
    elif labels.PACKAGE in image.labels:
        kind, hint = "it has the labels of a bundle, but no manifests directory", "build the bundle again"
    elif image.config.entrypoint or image.config.cmd:
        command = " ".join((*image.config.entrypoint, *image.config.cmd))
        kind = f"it is the image of a program, perhaps of the operator (it runs {command!r})"
        hint = "pass the image that contains the operator's manifests"
    else:
        kind, hint = "it is an image of unknown kind", "pass an image with manifests/ and metadata/ directories"
    return NotABundle(f"{reference} is not a bundle: {kind}", hint=hint)


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
) -> Iterator[Bundle]:
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
    cache = ManifestCache()
    only_directories = all(isinstance(source.location, Path) for source in sources)
    workers, lookahead = (_READERS, 4 * _READERS) if only_directories else (WORKERS, LOOKAHEAD)
    with (
        _prefetcher(cache, only_directories=only_directories) as prefetcher,
        closing(
            ordered_parallel_map(partial(_fetch, fetcher, prefetcher), sources, workers=workers, lookahead=lookahead)
        ) as fetched,
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


def _prefetcher(cache: ManifestCache, *, only_directories: bool) -> ManifestPrefetcher:
    """Return a prefetcher that leaves little to parse for this process if reading the bundles takes hardly any time."""
    spare = spare_cpu_count(MAX_PROCESSES)
    if only_directories and spare:
        return ManifestPrefetcher(cache, spare + 1, in_order=True)
    return ManifestPrefetcher(cache)


def _fetch(fetcher: BundleFetcher, prefetcher: ManifestPrefetcher, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle and submit its manifests for parsing."""
    files = fetcher.fetch(source)
    prefetcher.submit_files(files)
    return files
