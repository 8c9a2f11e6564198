"""Mirror indexes: their catalog images, their bundle images and the related images of these."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import DEFAULT_TAG, Reference
from opmkit.index.operations.related_images import group_by_image
from opmkit.supply.mirror.catalog import open_catalog
from opmkit.supply.mirror.description import MirroredImage
from opmkit.supply.mirror.errors import MirrorFailed
from opmkit.supply.mirror.model import (
    MirrorFailure,
    MirrorPlan,
    MirrorReport,
    MirrorRequest,
    PlannedImage,
    PlannedManifest,
    digest_tag,
    is_digest_tag,
)
from opmkit.supply.mirror.plan import ManifestSpool, MirrorPlanOptions, check_target_tag, resolve_in_target
from opmkit.supply.mirror.recording import MirrorRecording, group_by_subject
from opmkit.supply.mirror.worker_engine import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.core.shard import Shard
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse
    from opmkit.supply.mirror.catalog import CatalogSelection, MirrorCatalog
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.image_set import BlockedImages
    from opmkit.supply.mirror.record import RecordSubject
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget
    from opmkit.supply.mirror.worker_engine import MirrorEngine, MirrorWorkers, PlannedCopy


class MirroredCatalog(Struct, frozen=True):
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


class MirrorContent(Struct, frozen=True):
    """The content of a mirror.

    Attributes:
        indexes: Indexes, each with the part of it to mirror. An index is an image, or a directory or database file.
        images: Other images.
        blocked: The images that are not mirrored; None to mirror all.
        warnings: Warnings about the description of the content.
    """

    indexes: tuple[tuple[str, CatalogSelection], ...]
    images: tuple[MirrorRequest, ...] = ()
    blocked: BlockedImages | None = None
    warnings: tuple[str, ...] = ()


class IndexMirror:
    """The mirror of indexes, usually of one.

    Attributes:
        contents: The catalog images with the images that their bundles use.
        plan: What is to be copied.
        catalogs: The catalog images in the target, before anything is copied; none for a shard, which does not copy
            them.
        warnings: Warnings about the filtered catalogs, and about the description of the content.
    """

    def __init__(
        self,
        contents: Sequence[MirrorCatalog],
        plan: MirrorPlan,
        engine: MirrorEngine,
        target: MirrorTarget,
        recording: MirrorRecording,
        platforms: tuple[Platform, ...] = (),
        *,
        is_shard: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> None:
        """Use the plan of the engine for opened catalogs; ``platforms`` are the selected ones."""
        self.contents = tuple(contents)
        self.plan = plan
        self.warnings = (*(text for each in contents if each.change for text in each.change.warnings), *warnings)
        self._engine = engine
        self._target = target
        self._recording = recording
        self._platforms = platforms
        self._copy: PlannedCopy | None = None
        self._built: dict[tuple[str, str], PlannedImage] = {}
        self.catalogs = [] if is_shard else [self._find_catalog(catalog) for catalog in contents]

    @property
    def report(self) -> MirrorReport:
        """The result so far, without a catalog image that is built or read on this machine."""
        return self._copy.report() if self._copy else MirrorReport((), self.plan.present, self.plan.failures)

    def described_images(self) -> list[MirroredImage]:
        """Return the images that the target has, including the catalogs, for its description."""
        report, platforms = self.report, self._platforms
        subjects: dict[int, list[RecordSubject]] = defaultdict(list)
        for group in self._recording.groups:
            for image in group.images:
                subjects[id(image)].append(group.subject)
        images = [
            MirroredImage(
                f"{image.target}:{image.tag}",
                image.digest,
                platforms if image.is_partial else (),
                image.request.last,
                image.request.needed_by,
                tuple(subjects[id(image)]),
            )
            for image in (*report.copied, *report.present)
        ]
        images += [
            MirroredImage(
                f"{found.name}:{found.tag}",
                found.digest,
                is_catalog=True,
                subjects=tuple(
                    each.subject
                    for each in self._recording.groups
                    if (each.subject.name, each.subject.version) == (catalog.name.name, found.digest)
                ),
            )
            for found, catalog in zip(self.catalogs, self.contents, strict=False)
            if catalog.image is not None
        ]
        return images

    def run(self, options: CopyOptions, *, progress: Progress = NO_PROGRESS) -> MirrorReport:
        """Copy the images, and then the catalogs, so that a catalog in the target never lacks images of its bundles.

        Raises:
            MirrorFailed: An image cannot be mirrored, and `CopyOptions.continue_on_errors` is not set; or the target
                keeps failing. The catalogs in the target are unchanged.
        """
        if self.plan.failures and not options.continue_on_errors:
            raise MirrorFailed(self.plan.failures, len(self.plan.images) + len(self.plan.failures))
        self._recording.write(self._built.values())
        self._copy = self._engine.prepare_copy(self.plan, options, progress)
        report = self._copy.run()
        for found, catalog in zip(self.catalogs, self.contents, strict=False):
            if catalog.image is not None and not found.is_present:
                from opmkit.imagetools.copy import copy_image  # slow to import: compression

                repository = self._target.repository(catalog.name)
                replaces = None if self._target.shares_blobs else self._built[found.name, found.tag].replaces
                try:
                    copy_image(
                        catalog.image,
                        repository,
                        catalog.tag,
                        replacing=replaces,
                        workers=options.workers,
                        progress=progress,
                    )
                finally:
                    self._target.finish()
        self._recording.confirm()
        return report

    def _find_catalog(self, catalog: MirrorCatalog) -> MirroredCatalog:
        found = MirroredCatalog(
            self._target.name(catalog.name), catalog.tag, catalog.digest, str(catalog.name), is_present=False
        )
        if catalog.image is not None:
            built = self._plan_built(catalog, catalog.image)
            self._recording.check(built)
            self._built[found.name, found.tag] = built
            return replace(found, is_present=built.is_present, size=_size(catalog.image))
        planned = [image for image in self.plan.images if image.request is catalog.request]
        return replace(found, is_present=any(image.is_present for image in planned))

    def _plan_built(self, catalog: MirrorCatalog, image: Image | ImageIndex) -> PlannedImage:
        """Return the plan for a catalog image that is not read from a registry, and thus not in that of the engine."""
        from opmkit.imagetools.copy import all_manifests

        name, repository = self._target.name(catalog.name), self._target.repository(catalog.name)
        check_target_tag(f"{name}:{catalog.tag}", catalog.tag, catalog.digest)
        request = MirrorRequest(catalog.name, ("the mirrored catalog",), tag=catalog.tag, last=True)
        current = resolve_in_target(repository, catalog.tag)
        planned = PlannedImage(request, catalog.digest, catalog.tag, name, replaces=current)
        if current == catalog.digest:
            return planned
        manifests = tuple(PlannedManifest(each.digest, len(each.raw)) for each in all_manifests(image))
        existing = tuple(each.digest for each in manifests if resolve_in_target(repository, each.digest))
        return replace(planned, manifests=manifests, existing=existing)


class MirrorDistribution(Struct, frozen=True):
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
    content: MirrorContent,
    options: MirrorPlanOptions | None = None,
    *,
    signatures: bool = True,
    overwrite_tags: bool = False,
    distribution: MirrorDistribution | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[IndexMirror]:
    """Read indexes, and plan to mirror them; `IndexMirror.run` within the block does so.

    Args:
        tool: Reads the indexes.
        source: Reads the images.
        target: Where they are copied to.
        content: The indexes and other images.
        options: Platforms and concurrency.
        signatures: Whether to mirror the signatures, attestations and other artifacts of the images as well.
        overwrite_tags: Whether to move tags of the target that name other images, which this mirror has not set.
        distribution: The workers that plan and copy the images, and the part of them to mirror.
        progress: A receiver of progress reports.

    Raises:
        CatalogError: An index is invalid, or the filters are.
        TagConflict: The tag of a catalog in the target names another image, which this mirror has not set.
        ImageToolsError: An index or a record of the target cannot be read.
    """
    options, distribution = options or MirrorPlanOptions(), distribution or MirrorDistribution()
    with ExitStack() as stack:
        catalogs = [stack.enter_context(open_catalog(tool, text, part)) for text, part in content.indexes]
        spool = stack.enter_context(ManifestSpool())
        requests, failures = find_images(catalogs, content, target)
        if blocked := content.blocked:
            catalogs = [each for each in catalogs if not _is_blocked(blocked, each.name, each.name, each.tag, target)]
        if shard := distribution.shard:
            requests = [request for request in requests if shard.contains(str(request.reference))]
            failures = [failure for failure in failures if shard.contains(failure.image)]
        else:
            requests += [catalog.request for catalog in catalogs if catalog.request]
        engine = distribution.engine(LocalEngine(source, target, spool, options))
        plan = engine.plan(requests, progress)
        if signatures:
            attached, unreadable = engine.attached(plan.images, progress)
            failures += unreadable
            plan = plan.merge(engine.plan(attached, progress))
        groups = group_by_subject(map(_with_requests, catalogs), content.images, plan.images)
        recording = MirrorRecording(target, groups, overwrite_tags=overwrite_tags)
        plan = recording.without_conflicts(MirrorPlan(plan.images, (*failures, *plan.failures)))
        yield IndexMirror(
            catalogs,
            plan,
            engine,
            target,
            recording,
            options.platforms,
            is_shard=shard is not None,
            warnings=content.warnings,
        )


def _with_requests(catalog: MirrorCatalog) -> tuple[MirrorCatalog, list[MirrorRequest]]:
    requests, _ = bundle_image_requests(catalog.uses)
    return catalog, [*requests, catalog.request] if catalog.request else requests


def find_images(
    catalogs: Sequence[MirrorCatalog], content: MirrorContent, target: MirrorTarget
) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return the requests for the images that are not blocked, without catalogs, and the failures."""
    requests, failures = bundle_image_requests(use for catalog in catalogs for use in catalog.uses)
    unique = {request.identity: request for request in requests}
    for request in content.images:
        known = unique.setdefault(request.identity, request)
        needed_by = tuple(dict.fromkeys((*known.needed_by, *request.needed_by)))
        unique[request.identity] = replace(known, needed_by=needed_by)
    requests = list(unique.values())
    if blocked := content.blocked:
        requests = [
            request
            for request in requests
            if not _is_blocked(blocked, request.reference, request.target_name, request.tag, target)
        ]
        failures = [failure for failure in failures if not blocked.matches(failure.image, "")]
    return requests, failures


def _is_blocked(blocked: BlockedImages, source: Reference, name: Reference, tag: str, target: MirrorTarget) -> bool:
    """Return whether an image is blocked by its source, with or without the default tag, or by its name in the target.

    An image without a valid name in the target is not blocked by that.
    """
    tag = tag or (digest_tag(source.digest) if source.digest else source.identifier)
    try:
        name_in_target = f"{target.name(name)}:{tag}"
    except InvalidReference:
        name_in_target = ""
    sources = [str(source)] if source.digest or source.tag != DEFAULT_TAG else [str(source), source.name]
    return any(blocked.matches(text, name_in_target) for text in sources)


def _size(image: Image | ImageIndex) -> int:
    from opmkit.imagetools.copy import all_blobs, all_manifests

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
