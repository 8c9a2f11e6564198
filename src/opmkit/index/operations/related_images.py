"""The images of an index: those of its bundles, and those that the bundles use (``relatedImages``)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle import labels
from opmkit.bundle.source import BundleSource, default_image
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import INDEXES
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionRange
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.fbc.blobs import Blob
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.filter.result import PackageFilter
    from opmkit.index.sqlite import IndexDatabase


class ImageKind(StrEnum):
    """The use that a bundle has for an image."""

    BUNDLE = "bundle"
    RELATED = "related"


class ImageUse(NamedTuple):
    """An image that a bundle needs: its own, or a related one, of which ``name`` is the name in the bundle or ""."""

    image: str
    kind: ImageKind
    package: str
    bundle: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class UsedImage:
    """An image with all its uses."""

    image: str
    uses: tuple[ImageUse, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the image and its uses in JSON types."""
        needed_by = [
            {"kind": use.kind.value, "package": use.package, "bundle": use.bundle, "name": use.name}
            for use in self.uses
        ]
        return {"image": self.image, "needed_by": needed_by}


class _Entry(NamedTuple):
    """A bundle in a channel."""

    package: str
    channel: str
    bundle: str


class _Bundle(NamedTuple):
    """A bundle with its images; ``related`` are pairs of name and image."""

    package: str
    name: str
    version: str
    image: str
    related: Sequence[tuple[str, str]]

    def uses(self) -> Iterator[ImageUse]:
        """Yield the bundle image, then each related image once."""
        if self.image:
            yield ImageUse(self.image, ImageKind.BUNDLE, self.package, self.name)
        seen = {"", self.image}
        for name, image in self.related:
            if image not in seen:
                seen.add(image)
                yield ImageUse(image, ImageKind.RELATED, self.package, self.name, name)


def images_in_catalog(blobs: Iterable[Blob], filters: Sequence[PackageFilter] = ()) -> Iterator[ImageUse]:
    """Yield the images of the bundles of a file-based catalog that match a filter, all without filters.

    Args:
        blobs: The catalog, which need not be valid. It is read once, and blobs are not retained.
        filters: Packages, channels and versions. Without filters images are yielded as bundles are read.

    Raises:
        UnknownPackage, CatalogError: A package or channel does not exist, or a range matches no version; several such
            errors are combined.
    """
    if not filters:
        for blob in blobs:
            if isinstance(blob, BundleBlob):
                yield from _from_blob(blob).uses()
        return
    from opmkit.index.fbc.check.bundle import bundle_version  # slow to import

    names = {wanted.package for wanted in filters}
    bundles: list[_Bundle] = []
    entries: list[_Entry] = []
    known: set[str] = set()
    for blob in blobs:
        known.add(blob.package)
        if blob.package not in names:
            continue
        if isinstance(blob, ChannelBlob):
            entries += [_Entry(blob.package, blob.name, entry.name) for entry in blob.entries]
        elif isinstance(blob, BundleBlob):
            bundles.append(_from_blob(blob, bundle_version(blob)))
    for bundle in _select(bundles, entries, filters, known - {""}):
        yield from bundle.uses()


def images_in_database(database: IndexDatabase, filters: Sequence[PackageFilter] = ()) -> Iterator[ImageUse]:
    """Yield the images of the bundles of a database that are in a channel, as `images_in_catalog`."""
    from opmkit.index.sqlite import rows  # slow to import

    entries = [_Entry(row.package, row.channel, row.bundle) for row in rows.entry_rows(database)]
    packages = {entry.bundle: entry.package for entry in entries}
    related: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, image in rows.related_image_rows(database):
        related[name].append(("", image))
    bundles = [
        _Bundle(packages[row.name], row.name, row.version, row.image, related[row.name])
        for row in rows.bundle_rows(database)
    ]
    selected = _select(bundles, entries, filters, set(packages.values())) if filters else bundles
    for bundle in selected:
        yield from bundle.uses()


def group_by_image(uses: Iterable[ImageUse]) -> list[UsedImage]:
    """Return each image once with all its uses, both sorted."""
    by_image: defaultdict[str, set[ImageUse]] = defaultdict(set)
    for use in uses:
        by_image[use.image].add(use)
    return [UsedImage(image, tuple(sorted(members))) for image, members in sorted(by_image.items())]


def _from_blob(blob: BundleBlob, version: str = "") -> _Bundle:
    related = [(each.name, each.image) for each in blob.related_images]
    return _Bundle(blob.package, blob.name, version, blob.image, related)


def _select(
    bundles: Iterable[_Bundle], entries: Iterable[_Entry], filters: Iterable[PackageFilter], known: set[str]
) -> list[_Bundle]:
    """Return the bundles that match a filter; ``known`` are the names of all packages."""
    by_package: defaultdict[str, dict[str, _Bundle]] = defaultdict(dict)
    for bundle in bundles:
        by_package[bundle.package][bundle.name] = bundle
    channels: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for entry in entries:
        channels[entry.package][entry.channel].add(entry.bundle)
    selected: dict[tuple[str, str], _Bundle] = {}
    errors: list[CatalogError] = []
    for wanted in filters:
        unknown = _unknown_names(wanted, channels[wanted.package], known)
        matches = _matches(wanted, by_package[wanted.package], channels[wanted.package])
        if wanted.version_range and not matches and not unknown:
            unknown = [CatalogError(f'filter "{wanted}": no bundle has a version in the range')]
        errors += unknown
        selected |= {(bundle.package, bundle.name): bundle for bundle in matches}
    if errors:
        raise combine_errors(errors)
    return list(selected.values())


def _unknown_names(wanted: PackageFilter, channels: Iterable[str], known: set[str]) -> list[CatalogError]:
    """Return errors for the package or the channels of a filter that do not exist."""
    if wanted.package not in known:
        return [*unknown_packages([wanted.package], known)]
    names = sorted(channels)
    return [
        CatalogError(
            f'package "{wanted.package}": channel "{name}" not found', hint=suggest_names("channels", name, names)
        )
        for name in wanted.channels
        if name not in names
    ]


def _matches(wanted: PackageFilter, bundles: Mapping[str, _Bundle], channels: Mapping[str, set[str]]) -> list[_Bundle]:
    placed = {name for channel in wanted.channels if channel in channels for name in channels[channel]}
    candidates = [bundle for name, bundle in bundles.items() if not wanted.channels or name in placed]
    if not wanted.version_range:
        return candidates
    from opmkit.bundle.versions import VersionRange

    parsed = VersionRange.parse(wanted.version_range)
    return [bundle for bundle in candidates if _is_in_range(bundle.version, parsed)]


def _is_in_range(version: str, version_range: VersionRange) -> bool:
    from opmkit.bundle.versions import strict_version

    try:
        return strict_version(version) in version_range
    except ValueError:
        return False


MAX_WORKERS = 10
"""Images that are inspected concurrently."""


def index_images(source: IndexSource, filters: Sequence[PackageFilter] = ()) -> Iterator[ImageUse]:
    """Yield the bundle images and related images of an index of either kind, with the bundle that needs each.

    An image that several bundles need is yielded for each of them; `group_by_image` collects these. A file-based
    catalog is read file by file: without filters, images are yielded before the whole catalog is read.

    Args:
        source: The index, which need not be valid as long as its documents can be read; or a single bundle.
        filters: Packages, channels and versions of the bundles; without filters, all bundles. Unlike those of
            `filter_blobs`, no bundles are added for a valid update graph.

    Raises:
        InvalidCatalog: Documents cannot be read; raised after the last image.
        UnknownPackage, CatalogError: A package or channel does not exist, or the source is not an index.
        BundleError: The bundle is invalid.
        ImageToolsError: The image of the index cannot be read.
    """
    if source.kind not in INDEXES:
        image = default_image(source.location, source.text)
        yield from images_in_catalog(
            [_read_bundle(source.tool(), BundleSource(source.text, source.location, image))], filters
        )
        return
    from opmkit.index.fbc.load import stream_blobs

    with source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open() as database:
                yield from images_in_database(database, filters)
        else:
            yield from images_in_catalog(stream_blobs(content.path), filters)


def follow_bundles(
    tool: ContainerTool, uses: Iterable[ImageUse], *, progress: Progress = NO_PROGRESS
) -> Iterator[ImageUse]:
    """Yield the given images, and those that related images need which are bundles themselves, and so on.

    Args:
        tool: The tool that reads related images.
        uses: Images of some bundles.
        progress: The progress.

    Raises:
        BundleError: A related bundle is invalid.
        ImageToolsError: A related image cannot be read, or its name is invalid.
    """
    seen: set[str] = set()
    pool = WorkerPool(MAX_WORKERS, "related")
    try:
        while current := list(uses):
            yield from current
            new = sorted({use.image for use in current if use.kind is ImageKind.RELATED} - seen)
            seen.update(new)
            uses = _images_of_bundles(tool, new, pool, progress)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _images_of_bundles(
    tool: ContainerTool, images: Sequence[str], pool: WorkerPool, progress: Progress
) -> list[ImageUse]:
    progress.begin("Reading related images", len(images), unit="images")
    try:
        found: list[ImageUse] = []
        for uses in pool.map(partial(_images_of_bundle, tool), images):
            found += uses
            progress.advance(1)
        return found
    finally:
        progress.end()


def _images_of_bundle(tool: ContainerTool, image: str) -> list[ImageUse]:
    """Return the images that an image needs, none unless it is a bundle."""
    if labels.MANIFESTS not in tool.inspect(parse_image_reference(image)).labels:
        return []
    return list(images_in_catalog([_read_bundle(tool, BundleSource.from_image(image))]))


def _read_bundle(tool: ContainerTool, source: BundleSource) -> BundleBlob:
    from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files
    from opmkit.index.fbc.from_bundle import named_bundle_to_blob

    bundle = parse_bundle_files(source, fetch_bundle_files(tool, source), strict=False)
    return named_bundle_to_blob(bundle, source.text)
