"""Mirror an index: its catalog image, its bundle images and their related images."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.copy import all_blobs, all_manifests, copy_image
from opmkit.imagetools.errors import InvalidReference, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.index.operations.related_images import group_by_image
from opmkit.supply.mirror.catalog import CatalogSelection, MirrorCatalog, open_catalog
from opmkit.supply.mirror.description import MirroredImage
from opmkit.supply.mirror.errors import MirrorFailed
from opmkit.supply.mirror.model import MirrorFailure, MirrorPlan, MirrorReport, MirrorRequest, is_digest_tag
from opmkit.supply.mirror.plan import ManifestSpool, MirrorPlanOptions
from opmkit.supply.mirror.worker_engine import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.core.shard import Shard
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget
    from opmkit.supply.mirror.worker_engine import MirrorEngine, MirrorWorkers, PlannedCopy


@dataclass(frozen=True, slots=True)
class MirroredCatalog:
    """The catalog image in the target.

    Attributes:
        name: Its repository in the target.
        tag: Its tag there.
        digest: Its digest.
        source: Its name in the source.
        is_present: Whether the target has it.
        size: Bytes of its manifests and blobs if it is built or read on this machine, else 0.
    """

    name: str
    tag: str
    digest: str
    source: str
    is_present: bool
    size: int = 0

    @property
    def is_local(self) -> bool:
        """Whether the image is built or read on this machine, and thus not among those of the plan."""
        return self.size > 0

    @property
    def source_name(self) -> str:
        """Its name in the source without a tag or digest."""
        return Reference.parse(self.source).name

    @property
    def reference(self) -> Reference:
        """Its reference in a registry: by tag, or by digest if the tag only stands for that."""
        reference = Reference.parse(self.name)
        return reference.with_digest(self.digest) if is_digest_tag(self.tag) else reference.with_tag(self.tag)


class IndexMirror:
    """The mirror of one index.

    Attributes:
        catalog: The catalog image with the images that its bundles use.
        plan: What is to be copied.
        target_catalog: The catalog image in the target, before anything is copied; None for a shard, which does not
            copy it.
    """

    def __init__(
        self,
        catalog: MirrorCatalog,
        plan: MirrorPlan,
        engine: MirrorEngine,
        target: MirrorTarget,
        platforms: tuple[Platform, ...] = (),
        *,
        is_shard: bool = False,
    ) -> None:
        """Use the plan of the engine for an opened catalog; ``platforms`` are the selected ones."""
        self.catalog = catalog
        self.plan = plan
        self._engine = engine
        self._target = target
        self._platforms = platforms
        self._copy: PlannedCopy | None = None
        self.target_catalog = None if is_shard else self._find_catalog()

    @property
    def report(self) -> MirrorReport:
        """The result so far, without a catalog image that is built or read on this machine."""
        return self._copy.report() if self._copy else MirrorReport((), self.plan.present, self.plan.failures)

    @property
    def catalogs(self) -> list[MirroredCatalog]:
        """The catalog in the target."""
        return [self.target_catalog] if self.target_catalog else []

    def described_images(self) -> list[MirroredImage]:
        """Return the images that the target has, including the catalog, for its description."""
        report, platforms = self.report, self._platforms
        images = [
            MirroredImage(
                f"{image.target}:{image.tag}",
                image.digest,
                platforms if image.is_partial else (),
                image.request.last,
                image.request.needed_by,
            )
            for image in (*report.copied, *report.present)
        ]
        found = self.target_catalog
        if found and self.catalog.image is not None:
            images.append(MirroredImage(f"{found.name}:{found.tag}", found.digest, is_catalog=True))
        return images

    def run(self, options: CopyOptions, *, progress: Progress = NO_PROGRESS) -> MirrorReport:
        """Copy the images, and then the catalog, so that a catalog in the target never lacks images of its bundles.

        Raises:
            MirrorFailed: An image cannot be mirrored, and `CopyOptions.continue_on_errors` is not set; or the target
                keeps failing. The catalog in the target is unchanged.
        """
        if self.plan.failures and not options.continue_on_errors:
            raise MirrorFailed(self.plan.failures, len(self.plan.images) + len(self.plan.failures))
        self._copy = self._engine.prepare_copy(self.plan, options, progress)
        report = self._copy.run()
        found = self.target_catalog
        if found and not found.is_present and self.catalog.image is not None:
            repository = self._target.repository(self.catalog.name)
            try:
                copy_image(self.catalog.image, repository, self.catalog.tag, workers=options.workers, progress=progress)
            finally:
                self._target.finish()
        return report

    def _find_catalog(self) -> MirroredCatalog:
        catalog = self.catalog
        found = MirroredCatalog(
            self._target.name(catalog.name), catalog.tag, catalog.digest, str(catalog.name), is_present=False
        )
        if catalog.image is not None:
            return replace(found, is_present=self._has_catalog(), size=_size(catalog.image))
        planned = [image for image in self.plan.images if image.request is catalog.request]
        return replace(found, is_present=any(image.is_present for image in planned))

    def _has_catalog(self) -> bool:
        try:
            return self._target.repository(self.catalog.name).resolve(self.catalog.tag).digest == self.catalog.digest
        except NotFound:
            return False


@dataclass(frozen=True, slots=True)
class MirrorDistribution:
    """The distribution of a mirror: its workers, None for this process, and the part of the images to mirror.

    A shard does not copy the catalog, since the target may lack the images of the others.
    """

    workers: MirrorWorkers | None = None
    shard: Shard | None = None

    def engine(self, local: LocalEngine) -> MirrorEngine:
        """Return the engine for the workers."""
        if self.workers is None:
            return local
        from opmkit.supply.mirror.worker_engine import WorkerEngine

        return WorkerEngine(self.workers, local)


@contextmanager
def open_mirror(
    tool: RegistryTool,
    source: MirrorSource,
    target: MirrorTarget,
    text: str,
    selection: CatalogSelection | None = None,
    options: MirrorPlanOptions | None = None,
    *,
    signatures: bool = True,
    distribution: MirrorDistribution | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[IndexMirror]:
    """Read an index, and plan to mirror it; `IndexMirror.run` within the block does so.

    Args:
        tool: Reads the index.
        source: Reads the images.
        target: Where they are copied to.
        text: The index: an image, or a directory or database file.
        selection: The part of the index, by default all of it.
        options: Platforms and concurrency.
        signatures: Whether to mirror the signatures, attestations and other artifacts of the images as well.
        distribution: The workers that plan and copy the images, and the part of them to mirror.
        progress: A receiver of progress reports.

    Raises:
        CatalogError: The index is invalid, or the filters are.
        ImageToolsError: The index cannot be read.
    """
    selection, options = selection or CatalogSelection(), options or MirrorPlanOptions()
    distribution = distribution or MirrorDistribution()
    with open_catalog(tool, text, selection) as catalog, ManifestSpool() as spool:
        requests, failures = bundle_image_requests(catalog.uses)
        if shard := distribution.shard:
            requests = [request for request in requests if shard.contains(str(request.reference))]
            failures = [failure for failure in failures if shard.contains(failure.image)]
        elif catalog.request:
            requests.append(catalog.request)
        engine = distribution.engine(LocalEngine(source, target, spool, options))
        plan = engine.plan(requests, progress)
        if signatures:
            attached, unreadable = engine.attached(plan.images, progress)
            failures += unreadable
            plan = plan.merge(engine.plan(attached, progress))
        plan = MirrorPlan(plan.images, (*failures, *plan.failures))
        yield IndexMirror(catalog, plan, engine, target, options.platforms, is_shard=shard is not None)


def _size(image: Image | ImageIndex) -> int:
    blobs = {blob.descriptor.digest: blob.descriptor.size for blob in all_blobs(image)}
    return sum(blobs.values()) + sum(len(manifest.raw) for manifest in all_manifests(image))


def bundle_image_requests(uses: Iterable[ImageUse]) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return a request for each image that bundles use, and a failure for each invalid reference."""
    requests: list[MirrorRequest] = []
    failures: list[MirrorFailure] = []
    for used in group_by_image(uses):
        needed_by = tuple(dict.fromkeys(f"bundle {use.bundle}" for use in used.uses))
        try:
            requests.append(MirrorRequest(Reference.parse(used.image).with_default_tag(), needed_by))
        except InvalidReference as error:
            failures.append(MirrorFailure(used.image, error, needed_by))
    return requests, failures
