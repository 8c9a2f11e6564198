"""Rendering: bundles and catalogs, wherever they are, as blobs of a file-based catalog."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import orjson

from opmkit.bundle.cache import ResultCache, code_digest
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files, read_bundle_directory
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import ManifestPrefetcher
from opmkit.bundle.parallel import ordered_parallel_map
from opmkit.bundle.source import BundleSource, default_image
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.from_bundle import bundle_to_blob, move_objects_last, sort_related_images, with_image
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.migrate import MigrationLevel, migrate
from opmkit.index.fbc.write import blob_to_dict
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource, SourceKind, require_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.reference import ImageReference
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.image.source import GetRegistryTool
    from opmkit.index.rendering.image_template import ImageTemplate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How references are rendered: those of ``kinds`` alone, and bundles at a ``level``.

    ``images`` names the images of bundle directories, which have none else. ``kept`` has the bundles that were
    rendered before. Remarks on bundles go to ``warn``.
    """

    kinds: frozenset[SourceKind] = frozenset(SourceKind)
    level: MigrationLevel = MigrationLevel.NONE
    images: ImageTemplate | None = None
    kept: ResultCache | None = None
    warn: Callable[[str], None] = lambda _: None


DEFAULT_OPTIONS = RenderOptions()


def open_render_cache(directory: Path) -> ResultCache:
    """Bundles below a directory, as this release renders them."""
    return ResultCache.open(directory, [code_digest("opmkit.bundle"), code_digest("opmkit.index.fbc")])


def render(
    tool: GetRegistryTool,
    references: Sequence[str],
    rendering: RenderOptions = DEFAULT_OPTIONS,
    *,
    progress: Progress = NO_PROGRESS,
) -> Blobs:
    """The blobs of all references, one after the other; see `iter_rendered`."""
    each = iter_rendered(tool, references, rendering, progress=progress)
    return Blobs.from_blobs(blob for blobs in each for blob in blobs)


def iter_rendered(
    tool: GetRegistryTool,
    references: Sequence[str],
    rendering: RenderOptions = DEFAULT_OPTIONS,
    *,
    progress: Progress = NO_PROGRESS,
) -> Iterator[Blobs]:
    """The blobs of each reference, in their order; they are read side by side.

    A reference is a catalog directory, a database file, an index image with either, a bundle directory or a bundle
    image. What is on disk goes before an image of that name. The first failure, in that order, ends it.

    Raises:
        InvalidCatalog: with all that is wrong in reading a catalog, each with its file and line.
        CatalogError: for what is none of these, or not of the kinds wanted.
        BundleError: for a bundle that no catalog can hold.
        ImageToolsError: for what can't be read.
    """
    progress.begin("Rendering", len(references), unit="references")
    cache = ManifestCache()
    with (
        ManifestPrefetcher(cache) as ahead,
        closing(ordered_parallel_map(_Reader(tool, rendering, ahead).read, references)) as waiting,
    ):
        try:
            for _, reading in waiting:
                found = reading.result()
                if isinstance(found, _UnreadBundle):
                    found = Blobs(bundles=(found.blob(cache, rendering),))
                yield migrate(found, rendering.level)
                progress.advance(1)
        finally:
            progress.end()


@dataclass(frozen=True, slots=True)
class _UnreadBundle:
    """The files of a bundle, and the digest that it is known by."""

    source: BundleSource
    digest: str
    files: Mapping[str, bytes]

    def blob(self, cache: ManifestCache, rendering: RenderOptions) -> BundleBlob:
        """Read the bundle, and keep what comes of it."""
        bundle = parse_bundle_files(self.source, self.files, cache=cache, strict=False)
        for warning in (*bundle.warnings, *_remarks(bundle)):
            rendering.warn(f"{self.source.text}: {warning}")
        image = self.source.image
        if isinstance(self.source.location, Path) and rendering.images:
            image = rendering.images.image(bundle)
        try:
            blob = bundle_to_blob(replace(bundle, image=""))
        except InvalidBundle as error:
            raise InvalidBundle(f"{self.source.text}: {error.message}", advice=error.advice) from error
        if rendering.kept and self.digest and not bundle.warnings:
            _keep(rendering.kept, self.digest, blob)
        return with_image(blob, image)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what references name; safe for several threads."""

    tool: GetRegistryTool
    rendering: RenderOptions
    ahead: ManifestPrefetcher

    def read(self, reference: str) -> Blobs | _UnreadBundle:
        """The blobs that a reference names, or else the files of a bundle, whose turn comes."""
        source = IndexSource.resolve(self.tool, reference)
        place = source.location
        digest = self._digest(place) if self.rendering.kept else ""
        blob = _kept(self.rendering.kept, digest) if self.rendering.kept and digest else None
        kind = source.kind if blob is None else SourceKind.BUNDLE_IMAGE
        require_kind(kind, self.rendering.kinds, reference)
        if kind in INDEXES:
            blobs = source.blobs()
            return blobs if kind in DATABASES else _normal(blobs)
        bundle = BundleSource(reference, place, default_image(place, reference))
        return self._unread(bundle, digest) if blob is None else Blobs(bundles=(with_image(blob, bundle.image),))

    def _digest(self, place: Path | ImageReference) -> str:
        """What a bundle at a place is known by; "" for a directory, which is read sooner than looked up."""
        if isinstance(place, Path):
            return ""
        return (place.digest if isinstance(place, Reference) else None) or self.tool().digest(place)

    def _unread(self, source: BundleSource, digest: str) -> _UnreadBundle:
        if isinstance(source.location, Path):
            files = read_bundle_directory(source.location, source.text)
        else:
            files = fetch_bundle_files(self.tool(), source)
        self.ahead.submit_files(files)
        return _UnreadBundle(source, digest, files)


def _remarks(bundle: Bundle) -> Iterator[str]:
    if not bundle.package:
        yield "its annotations name no package, so no catalog can hold it"
    if not bundle.name:
        yield "it has no name, so no channel can have it"


def _normal(blobs: Blobs) -> Blobs:
    """Blobs that were read, in the form in which all are written."""
    return replace(
        blobs,
        bundles=tuple(map(_normal_bundle, blobs.bundles)),
        others=tuple(replace(one, content=_keys_in_order(one.content)) for one in blobs.others),
    )


def _normal_bundle(blob: BundleBlob) -> BundleBlob:
    properties = (replace(one, value=_keys_in_order(one.value)) for one in blob.properties)
    return replace(
        blob, properties=move_objects_last(properties), related_images=sort_related_images(blob.related_images)
    )


def _keys_in_order(value: T) -> T:
    """The value with the keys of all its mappings in order; as it is, where it has numbers too large for that."""
    if not isinstance(value, dict | list):
        return value
    with suppress(orjson.JSONEncodeError):
        ordered: T = orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
        return ordered
    return value


def _kept(kept: ResultCache, digest: str) -> BundleBlob | None:
    raw = kept.get(digest)
    try:
        return parse_blobs(raw, digest).bundles[0] if raw else None
    except (InvalidCatalog, IndexError):
        return None


def _keep(kept: ResultCache, digest: str, blob: BundleBlob) -> None:
    kept.put(digest, orjson.dumps(blob_to_dict(blob)))
