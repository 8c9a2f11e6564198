"""Rendering of bundles and indexes as file-based catalogs."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import orjson
from msgspec import Struct, structs

from opmkit.bundle.load import fetch_bundle_files, parse_bundle_files, read_bundle_directory
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.manifest_prefetcher import ManifestPrefetcher
from opmkit.bundle.source import BundleSource, default_image
from opmkit.core.cache import code_digest
from opmkit.core.errors import OpmkitError
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map
from opmkit.documents.document_stream import Document
from opmkit.imagetools.reference import Reference, named_path
from opmkit.imagetools.store.directory import open_cache
from opmkit.index.convert.releases import bundle_in_release, catalog_in_release, database_in_release, with_objects
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
from opmkit.index.fbc.from_bundle import move_objects_last, named_bundle_to_blob, sort_related_images, with_image
from opmkit.index.fbc.load import load_documents
from opmkit.index.fbc.write import blob_to_dict
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource, SourceKind, require_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from opmkit.bundle.model import Bundle
    from opmkit.core.cache import ResultCache
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.worker_options import WorkerExecutor, WorkerOptions
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.image.source import GetRegistryTool


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Options of rendering.

    Attributes:
        kinds: Kinds of references to accept.
        level: Level to which bundles are migrated.
        image_template: Template of the images of bundle directories, which have no image otherwise.
        cache: Rendered bundle images by digest.
        digests: Digests of images in registries, by their references; other tags are resolved.
        warn: Called with each warning about a bundle.
        compat: The release of Go opm whose format is used.
    """

    kinds: frozenset[SourceKind] = frozenset(SourceKind)
    level: MigrationLevel = MigrationLevel.NONE
    image_template: ImageTemplate | None = None
    cache: ResultCache | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    warn: Callable[[str], None] = lambda _: None
    compat: CatalogCompat = CatalogCompat.NEWEST


DEFAULT_OPTIONS = RenderOptions()


def open_render_cache(store: Path | None = None) -> ResultCache:
    """Return the cache of rendered bundles in a store, by default that of the user."""
    code = ("opmkit.bundle", "opmkit.documents", "opmkit.imagetools", "opmkit.index.fbc")
    return open_cache("bundles", [code_digest(*code)], store)


def render(
    tool: GetRegistryTool,
    references: Sequence[str],
    options: RenderOptions = DEFAULT_OPTIONS,
    *,
    progress: Progress = NO_PROGRESS,
) -> Blobs:
    """Return the blobs of all references, one after the other; see `render_each`."""
    rendered = render_each(tool, references, options, progress=progress)
    return Blobs.from_blobs(blob for blobs in rendered for blob in blobs)


def render_each(
    tool: GetRegistryTool,
    references: Sequence[str],
    options: RenderOptions = DEFAULT_OPTIONS,
    *,
    progress: Progress = NO_PROGRESS,
) -> Iterator[Blobs]:
    """Yield the blobs of each reference in order, up to the first that fails; references are read concurrently.

    Args:
        tool: Creates the registry tool, when the first image is read.
        references: Catalog directories, database files, index images, bundle directories and bundle images. A path
            that exists takes precedence over a short name of an image, see `named_path`.
        options: Options of rendering.
        progress: Where to report progress.

    Raises:
        InvalidCatalog: Documents of a catalog are invalid; the error lists all findings.
        CatalogError: A reference is of another kind than those accepted.
        BundleError: A bundle can't be represented in a catalog.
        ImageToolsError: A reference can't be read.
    """
    with closing(render_settled(tool, references, options, progress=progress)) as results:
        for _, result in results:
            if isinstance(result, OpmkitError):
                raise result
            yield result


def render_settled(
    tool: GetRegistryTool,
    references: Sequence[str],
    options: RenderOptions = DEFAULT_OPTIONS,
    *,
    progress: Progress = NO_PROGRESS,
) -> Generator[tuple[str, Blobs | OpmkitError], None, None]:
    """Yield each reference in order with its blobs, or with the error of `render_each` for it."""
    progress.begin("Rendering", len(references), unit="references")
    manifests = ManifestCache()
    is_cached = options.cache is not None and not options.cache.is_empty
    with (
        ManifestPrefetcher(manifests) as prefetcher,
        closing(ordered_parallel_map(_Reader(tool, options, prefetcher, is_cached).read, references)) as results,
    ):
        try:
            for reference, future in results:
                yield reference, _settle(future, manifests, options)
                progress.advance(1)
        finally:
            progress.end()


def read_cached_bundle(options: RenderOptions, digest: str, image: str) -> BundleBlob | None:
    """Return the bundle of an image from the cache, None if it is not cached; report its warnings."""
    cached = _get_cached(options.cache, digest) if options.cache else None
    return None if cached is None else cached.render(image, options).bundles[0]


def _settle(
    future: Future[Blobs | _CachedBundle | _UnparsedBundle], manifests: ManifestCache, options: RenderOptions
) -> Blobs | OpmkitError:
    try:
        result = future.result()
        if isinstance(result, _UnparsedBundle):
            result = Blobs(bundles=(result.render(manifests, options),))
        elif isinstance(result, _CachedBundle):
            result = result.render(result.image, options)
        return migrate(result, options.level)
    except OpmkitError as error:
        return error


class _CachedBundle(Struct, frozen=True):
    """A rendered bundle from the cache, with the warnings about it, and the image that the catalog will contain."""

    blob: BundleBlob
    warnings: tuple[str, ...]
    image: str = ""

    def render(self, image: str, options: RenderOptions) -> Blobs:
        """Return the bundle with an image, and report the warnings."""
        for warning in self.warnings:
            options.warn(f"{image}: {warning}")
        return Blobs(bundles=(bundle_in_release(with_image(self.blob, image), options.compat),))


class _UnparsedBundle(Struct, frozen=True):
    """The files of a bundle; ``digest`` is that of its image, or "" for a directory or without a cache."""

    source: BundleSource
    digest: str
    files: Mapping[str, bytes]

    def render(self, manifests: ManifestCache, options: RenderOptions) -> BundleBlob:
        """Parse and render the bundle, and store the result in the cache."""
        bundle = parse_bundle_files(self.source, self.files, cache=manifests, strict=False)
        warnings = (*bundle.warnings, *_missing_names(bundle))
        for warning in warnings:
            options.warn(f"{self.source.text}: {warning}")
        image = self.source.image
        if isinstance(self.source.location, Path) and options.image_template:
            image = options.image_template.image(bundle)
        without_objects = structs.replace(bundle, image="", objects=())
        blob = with_objects(named_bundle_to_blob(without_objects, self.source.text), bundle.objects)
        if options.cache and self.digest:
            entry = {"blob": blob_to_dict(blob), "warnings": warnings}
            options.cache.put(self.digest, orjson.dumps(entry))
        return bundle_in_release(with_image(blob, image), options.compat)


class _Reader(Struct, frozen=True):
    """A thread-safe reader of references.

    ``is_cached`` is whether images may be in the cache, so that at first only their digests are read.
    """

    tool: GetRegistryTool
    options: RenderOptions
    prefetcher: ManifestPrefetcher
    is_cached: bool

    def read(self, reference: str) -> Blobs | _CachedBundle | _UnparsedBundle:
        """Return the blobs of an index, or a bundle."""
        source = self._find(reference)
        cache = self.options.cache
        digest = self._digest(source.location) if cache else ""
        cached = _get_cached(cache, digest) if cache and digest else None
        kind = source.kind if cached is None else SourceKind.BUNDLE_IMAGE
        require_kind(kind, self.options.kinds, reference)
        if kind in INDEXES:
            return self._read_index(source, kind)
        bundle = BundleSource(reference, source.location, default_image(source.location, reference))
        return self._read_bundle(bundle, digest) if cached is None else structs.replace(cached, image=bundle.image)

    def _find(self, reference: str) -> IndexSource:
        """Find a source; an image in a registry is identified by its digest."""
        digest = self.options.digests.get(reference)
        if digest is None:
            return IndexSource.resolve(self.tool, reference, load=not self.is_cached)
        named = Reference.parse(reference)
        self.tool().admit(named, digest)
        return IndexSource(reference, named.with_digest(digest), self.tool)

    def _read_index(self, source: IndexSource, kind: SourceKind) -> Blobs:
        """Return the blobs of an index in the format of the release."""
        compat = self.options.compat
        sort = compat.has(ReleaseChange.SORTED_CONTENT)
        if kind not in DATABASES:
            return catalog_in_release(_normalize(source.blobs(), sort=sort), compat)
        if sort:
            return database_in_release(source.blobs(), compat)
        from opmkit.index.convert.database_blobs import database_to_blobs  # slow to import: SQLite
        from opmkit.index.sqlite import open_database

        with source.open() as content, open_database(content.path) as database:
            return database_to_blobs(database, sort_objects=False)

    def _digest(self, location: Path | ImageReference) -> str:
        """Return the digest of an image; "" for a directory, which is not cached."""
        if isinstance(location, Path):
            return ""
        return (location.digest if isinstance(location, Reference) else None) or self.tool().digest(location)

    def _read_bundle(self, source: BundleSource, digest: str) -> _UnparsedBundle:
        if isinstance(source.location, Path):
            files = read_bundle_directory(source.location, source.text)
        else:
            files = fetch_bundle_files(self.tool(), source)
        self.prefetcher.submit_files(files)
        return _UnparsedBundle(source, digest, files)


def _missing_names(bundle: Bundle) -> Iterator[str]:
    if not bundle.package:
        yield "no package in its annotations, so the blob is not part of a package"
    if not bundle.name:
        yield "no name, so channels cannot refer to it"


def _normalize(blobs: Blobs, *, sort: bool) -> Blobs:
    """Sort related images, and with ``sort`` properties and keys, as in blobs that are rendered from bundles."""
    others = (replace(blob, content=_sort_keys(blob.content)) if sort else blob for blob in blobs.others)
    bundles = (_normalize_bundle(blob, sort=sort) for blob in blobs.bundles)
    return replace(blobs, bundles=tuple(bundles), others=tuple(others))


def _normalize_bundle(blob: BundleBlob, *, sort: bool) -> BundleBlob:
    images = sort_related_images(blob.related_images)
    if not sort:
        return replace(blob, related_images=images)
    properties = (structs.replace(prop, value=_sort_keys(prop.value)) for prop in blob.properties)
    return replace(blob, properties=move_objects_last(properties), related_images=images)


def _sort_keys(value: T) -> T:
    """Return the value with the keys of all mappings sorted; the same value if it contains very large numbers."""
    if not isinstance(value, dict | list):
        return value
    with suppress(orjson.JSONEncodeError):
        result: T = orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
        return result
    return value


def _get_cached(cache: ResultCache, digest: str) -> _CachedBundle | None:
    raw = cache.get(digest)
    try:
        entry = orjson.loads(raw) if raw else {}
        bundles = load_documents(digest, [Document(1, entry["blob"])]).blobs.bundles
        return _CachedBundle(bundles[0], tuple(entry["warnings"]))
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return None


_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_FIELDS = ("Package", "Name", "Version")
_HINT = f"use the fields {', '.join(f'{{{{.{name}}}}}' for name in _FIELDS)}"


@dataclass(frozen=True, slots=True)
class ImageTemplate:
    """A template in a subset of Go's syntax: texts, and the names of the fields between them."""

    texts: tuple[str, ...]
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, template: str) -> ImageTemplate:
        """Parse a template; raise CatalogError if it is invalid."""
        *texts, last = _ACTION.split(template)
        if "{{" in last:
            raise CatalogError(f"invalid image template {template!r}: {{{{ without }}}}", hint=_HINT)
        return cls((*texts[::2], last), tuple(_field(action, template) for action in texts[1::2]))

    def image(self, bundle: Bundle) -> str:
        """Return the image name of a bundle."""
        values = {"Package": bundle.package, "Name": bundle.name, "Version": bundle.version}
        filled = (values[field] + text for field, text in zip(self.fields, self.texts[1:], strict=True))
        return self.texts[0] + "".join(filled)


def _field(content: str, template: str) -> str:
    action = content.strip()
    name = action.removeprefix(".")
    if action != f".{name}" or name not in _FIELDS:
        raise CatalogError(f"invalid image template {template!r}: unknown field {{{{{content}}}}}", hint=_HINT)
    return name


class Rendered(Struct, frozen=True):
    """The blobs of a reference, or the error, and the warnings about it."""

    result: Blobs | OpmkitError
    warnings: tuple[str, ...]


class RenderTask(Struct, frozen=True):
    """Renders references with the tool and the cache of the process that it runs in; see `RenderOptions`."""

    worker: WorkerOptions
    level: MigrationLevel = MigrationLevel.NONE
    image_template: ImageTemplate | None = None
    compat: CatalogCompat = CatalogCompat.NEWEST
    use_cache: bool = True

    def __call__(self, references: Sequence[str]) -> list[Rendered]:
        """Return one result per reference, in their order."""
        tool, warnings, results = self.worker.tool(), [], []
        options = RenderOptions(
            level=self.level,
            image_template=self.image_template,
            cache=open_render_cache() if self.use_cache else None,
            warn=lambda warning: warnings.append(warning),
            compat=self.compat,
        )
        for _, result in render_settled(lambda: tool, references, options):
            results.append(Rendered(result, tuple(warnings)))
            warnings.clear()
        return results


def render_by_workers(
    executor: WorkerExecutor,
    references: Sequence[str],
    options: RenderOptions = DEFAULT_OPTIONS,
    *,
    use_cache: bool = True,
    progress: Progress = NO_PROGRESS,
) -> Blobs:
    """Return what `render` returns, rendered by workers with their own tools and caches.

    Raises:
        ExecutorError: The workers cannot be used, or cannot read files of this machine.
    """
    executor.check_paths(filter(named_path, references))
    task = RenderTask(executor.worker, options.level, options.image_template, options.compat, use_cache)
    blobs: list[Blobs] = []
    with closing(executor.map("Rendering", task, references, "references", progress)) as rendered:
        for one in rendered:
            for warning in one.warnings:
                options.warn(warning)
            if isinstance(one.result, Exception):
                raise one.result
            blobs.append(one.result)
    return Blobs.from_blobs(blob for part in blobs for blob in part)
