"""Mirror an index: its catalog image, its bundle images and their related images."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.imagetools.copy import all_blobs, all_manifests, copy_image
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.mirroring.attached import attached_requests
from opmkit.imagetools.mirroring.copy import CopyOptions, MirrorCopy
from opmkit.imagetools.mirroring.description import MirroredImage
from opmkit.imagetools.mirroring.errors import MirrorFailed
from opmkit.imagetools.mirroring.model import MirrorPlan, MirrorReport
from opmkit.imagetools.mirroring.names import is_digest_tag
from opmkit.imagetools.mirroring.plan import PlanOptions, plan_mirror
from opmkit.imagetools.mirroring.spool import ManifestSpool
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference
from opmkit.index.mirror.catalog import CatalogSelection, MirrorCatalog, open_catalog
from opmkit.index.mirror.images import bundle_image_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.mirroring.target import MirrorSource, MirrorTarget
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool


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
    def reference(self) -> Reference:
        """Its reference in a registry: by tag, or by digest if the tag only stands for that."""
        reference = Reference.parse(self.name)
        return reference.with_digest(self.digest) if is_digest_tag(self.tag) else reference.with_tag(self.tag)


class IndexMirror:
    """The mirror of one index.

    Attributes:
        catalog: The catalog image with the images that its bundles use.
        plan: What is to be copied.
        target_catalog: The catalog image in the target, before anything is copied.
    """

    def __init__(
        self,
        catalog: MirrorCatalog,
        plan: MirrorPlan,
        source: MirrorSource,
        target: MirrorTarget,
        spool: ManifestSpool,
        platforms: tuple[Platform, ...] = (),
    ) -> None:
        """Use the plan for an opened catalog; ``platforms`` are the selected ones."""
        self.catalog = catalog
        self.plan = plan
        self._source = source
        self._target = target
        self._spool = spool
        self._platforms = platforms
        self._copy: MirrorCopy | None = None
        self.target_catalog = self._find_catalog()

    @property
    def report(self) -> MirrorReport:
        """The result so far, without a catalog image that is built or read on this machine."""
        return self._copy.report() if self._copy else MirrorReport((), self.plan.present, self.plan.failures)

    @property
    def catalogs(self) -> list[MirroredCatalog]:
        """The catalog in the target."""
        return [self.target_catalog]

    @property
    def local_catalogs(self) -> list[tuple[MirroredCatalog, Reference]]:
        """The catalog, with its source, if its image is built or read on this machine and thus not in the plan."""
        return [(self.target_catalog, self.catalog.name)] if self.catalog.image is not None else []

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
        if self.catalog.image is not None:
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
        self._copy = MirrorCopy(self.plan, self._source, self._target, self._spool, options, progress=progress)
        report = self._copy.run()
        if self.catalog.image is not None and not self.target_catalog.is_present:
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


@contextmanager
def open_mirror(
    tool: RegistryTool,
    source: MirrorSource,
    target: MirrorTarget,
    text: str,
    selection: CatalogSelection | None = None,
    options: PlanOptions | None = None,
    *,
    signatures: bool = True,
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
        progress: A receiver of progress reports.

    Raises:
        CatalogError: The index is invalid, or the filters are.
        ImageToolsError: The index cannot be read.
    """
    selection, options = selection or CatalogSelection(), options or PlanOptions()
    with open_catalog(tool, text, selection) as catalog, ManifestSpool() as spool:
        requests, failures = bundle_image_requests(catalog.uses)
        if catalog.request:
            requests.append(catalog.request)
        plan = plan_mirror(requests, source, target, spool, options, progress=progress)
        if signatures:
            attached, unreadable = attached_requests(plan.images, source, workers=options.workers, progress=progress)
            attached_plan = plan_mirror(attached, source, target, spool, options, progress=progress)
            failures += unreadable
            plan = plan.merge(attached_plan)
        plan = MirrorPlan(plan.images, (*failures, *plan.failures))
        yield IndexMirror(catalog, plan, source, target, spool, options.platforms)


def _size(image: Image | ImageIndex) -> int:
    blobs = {blob.descriptor.digest: blob.descriptor.size for blob in all_blobs(image)}
    return sum(blobs.values()) + sum(len(manifest.raw) for manifest in all_manifests(image))
