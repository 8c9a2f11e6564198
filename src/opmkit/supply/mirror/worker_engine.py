"""Engine of mirrors that has the images planned and copied by an executor, with its tasks."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.executors import split_batches
from opmkit.core.progress import NO_PROGRESS
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference
from opmkit.supply.mirror.attached import attached_requests, combine_attached, group_by_repository, search_repository
from opmkit.supply.mirror.copy import (
    MAX_TARGET_FAILURES,
    BlobTransfer,
    CopyOptions,
    MirrorCopy,
    SourceFailed,
    TransferMeter,
    find_mount_sources,
)
from opmkit.supply.mirror.errors import MirrorFailed, TargetFailed
from opmkit.supply.mirror.locations import RegistryTarget
from opmkit.supply.mirror.model import MirrorFailure, MirrorPlan, MirrorReport
from opmkit.supply.mirror.plan import ManifestSpool, MirrorPlanOptions, combine_planned, plan_mirror, plan_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from opmkit.core.executors import TaskPool
    from opmkit.core.progress import Progress
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.worker_options import WorkerOptions
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.model import MirrorRequest, PlannedImage
    from opmkit.supply.mirror.plan import MirrorPlanOptions
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget, RegistryLocation


T = TypeVar("T")
R = TypeVar("R")

_MAX_SEARCHED = 256
"""Images of one repository whose signatures one worker looks for."""


class MirrorWorkers(Struct, frozen=True):
    """Workers of a mirror with their access to the registries."""

    pool: TaskPool
    access: MirrorAccess

    def map(
        self, task: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], progress: Progress, label: str, unit: str
    ) -> Generator[R, None, None]:
        """Yield the result of each item, and report the progress."""
        progress.begin(label, len(items), unit)
        try:
            with closing(self.pool.map(task, items)) as results:
                for result in results:
                    yield result
                    progress.advance(1)
        finally:
            progress.end()


class WorkerEngine(Struct, frozen=True):
    """Engine that distributes all images, except those that are copied last, which ``local`` copies."""

    workers: MirrorWorkers
    local: LocalEngine

    def plan(self, requests: Sequence[MirrorRequest], progress: Progress) -> MirrorPlan:
        """Find out which images the target lacks; see `plan_mirror`."""
        first, last = [each for each in requests if not each.last], [each for each in requests if each.last]
        task = PlanTask(self.workers.access, self.local.options)
        sent = [replace(request, needed_by=()) for request in first]
        results: list[PlannedImage | MirrorFailure] = []
        with closing(self.workers.map(task, sent, progress, "Reading manifests", "images")) as planned:
            for request, result in zip(first, planned, strict=True):
                if not isinstance(result, MirrorFailure):
                    results.append(replace(result, request=request))
                elif result.is_target_error:
                    raise result.error
                else:
                    results.append(replace(result, needed_by=request.needed_by))
        last_plan = self.local.plan(last, progress) if last else MirrorPlan(())
        return combine_planned((*results, *last_plan.images, *last_plan.failures))

    def attached(
        self, images: Sequence[PlannedImage], progress: Progress
    ) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
        """Return requests for the artifacts of images; see `attached_requests`."""
        repositories = group_by_repository(map(_without_blobs, images))
        groups = [part for repository in repositories for part in split_batches(repository, _MAX_SEARCHED)]
        task = AttachedTask(self.workers.access)
        with closing(self.workers.map(task, groups, progress, "Looking for signatures", "repositories")) as found:
            return combine_attached(found)

    def prepare_copy(self, plan: MirrorPlan, options: CopyOptions, progress: Progress) -> PlannedCopy:
        """Prepare to copy the images that the target lacks."""
        return WorkerCopy(plan, self, options, progress)


class WorkerCopy:
    """The copying of the images of a plan by workers. Blobs that images share are copied before the images."""

    def __init__(self, plan: MirrorPlan, engine: WorkerEngine, options: CopyOptions, progress: Progress) -> None:
        """Prepare to copy the images of ``plan`` that the target lacks."""
        self._plan = plan
        self._local = engine.local
        self._workers = engine.workers
        self._options = options
        self._progress = progress
        self._copied: list[PlannedImage] = []
        self._failures: list[MirrorFailure] = []
        self._target_failures = 0
        self._transferred = 0
        self._last: PlannedCopy | None = None

    def report(self) -> MirrorReport:
        """Return what was done so far."""
        last = self._last.report() if self._last else MirrorReport((), ())
        return MirrorReport(
            (*self._copied, *last.copied),
            self._plan.present,
            (*self._plan.failures, *self._failures, *last.failures),
            self._transferred + last.transferred,
        )

    def run(self) -> MirrorReport:
        """Copy the images, those that are last in this process; see `MirrorCopy.run`.

        Raises:
            MirrorFailed: An image cannot be copied, and `CopyOptions.continue_on_errors` is not set.
            TargetFailed: The target keeps failing.
            ExecutorError: The executor has lost its workers.
        """
        images = [image for image in self._plan.absent if not image.request.last]
        holders = self._find_holders(images)
        shared = _shared_blobs(images, holders)
        task = BlobTask(self._workers.access, self._options.workers)
        with closing(self._workers.map(task, shared, self._progress, "Copying shared layers", "layers")) as copied:
            for transferred in copied:
                self._transferred += transferred
        holders.update((each.blob.digest, self._in_target(each.target_name)) for each in shared)
        self._copy(images, holders)
        last = tuple(image for image in self._plan.images if image.request.last)
        self._last = self._local.prepare_copy(MirrorPlan(last), self._options, self._progress)
        self._last.run()
        return self.report()

    def _find_holders(self, images: Sequence[PlannedImage]) -> dict[str, Reference]:
        """Return repositories of the target that have blobs of images, by digest."""
        wanted = {digest for image in images for digest in image.blobs}
        with WorkerPool(self._options.workers, "mirror") as pool:
            found = find_mount_sources(self._plan.present, self._local.target, wanted, pool)
        return {digest: self._in_target(name) for digest, name in found.items()}

    def _in_target(self, name: Reference) -> Reference:
        return Reference.parse(self._local.target.name(name))

    def _copy(self, images: Sequence[PlannedImage], holders: Mapping[str, Reference]) -> None:
        """Copy images; raise MirrorFailed or TargetFailed if that ends the copying."""
        plan_options = replace(self._local.options, measure=False)
        task = CopyTask(self._workers.access, plan_options, self._options)
        remaining = iter(images)
        self._progress.begin("Copying", len(images), "images")
        try:
            with closing(self._workers.pool.map(task, [_copy_request(image, holders) for image in images])) as outcomes:
                for outcome in outcomes:
                    self._record(outcome, list(islice(remaining, len(outcome.is_copied))))
                    self._progress.advance(len(outcome.is_copied))
        finally:
            self._progress.end()

    def _record(self, outcome: CopyOutcome, images: Sequence[PlannedImage]) -> None:
        self._transferred += outcome.transferred
        self._copied += [image for image, is_copied in zip(images, outcome.is_copied, strict=True) if is_copied]
        for at, image in enumerate(images):
            if outcome.is_copied[at]:
                self._target_failures = 0
            elif at in outcome.failures:
                self._record_failure(outcome.failures[at], image.request)

    def _record_failure(self, failed: MirrorFailure, request: MirrorRequest) -> None:
        failure = replace(failed, image=str(request.reference), needed_by=request.needed_by)
        self._failures.append(failure)
        self._target_failures = self._target_failures + 1 if failure.is_target_error else 0
        if not self._options.continue_on_errors:
            raise MirrorFailed([failure])
        if self._target_failures >= MAX_TARGET_FAILURES:
            raise TargetFailed(failure)


def _without_blobs(image: PlannedImage) -> PlannedImage:
    return replace(image, manifests=tuple(replace(manifest, blobs=()) for manifest in image.manifests))


def _shared_blobs(images: Sequence[PlannedImage], holders: Mapping[str, Reference]) -> list[SharedBlob]:
    """Return the blobs of more than one image, with the first of these images."""
    uses = Counter(digest for image in images for digest in image.blobs)
    shared: dict[str, SharedBlob] = {}
    for image in images:
        for digest, blob in image.blobs.items():
            if uses[digest] > 1 and digest not in shared:
                request = image.request
                shared[digest] = SharedBlob(blob, request.reference, request.target_name, holders.get(digest))
    return list(shared.values())


def _copy_request(image: PlannedImage, holders: Mapping[str, Reference]) -> CopyRequest:
    request = replace(
        image.request,
        reference=image.request.reference.with_digest(image.digest),
        name=image.request.target_name,
        tag=image.tag,
        needed_by=(),
        is_admitted=True,
    )
    return CopyRequest(request, {digest: holders[digest] for digest in image.blobs if digest in holders})


class MirrorAccess(Struct, frozen=True):
    """Access of workers to the sources and the target of a mirror; see `RegistryTarget`."""

    worker: WorkerOptions
    location: RegistryLocation
    max_components: int | None = None

    def open(self) -> tuple[RegistryClient, RegistryTarget]:
        """Return the source and the target; raise ExecutorError if this program is another release."""
        client = self.worker.client()
        return client, RegistryTarget(client, self.location, max_components=self.max_components)


class PlanTask(Struct, frozen=True):
    """Plans images."""

    access: MirrorAccess
    options: MirrorPlanOptions

    def __call__(self, requests: Sequence[MirrorRequest]) -> list[PlannedImage | MirrorFailure]:
        """Return the planned image or failure of each request; only failures of the target are target errors."""
        source, target = self.access.open()
        with ManifestSpool() as spool:
            try:
                return plan_requests(requests, source, target, spool, self.options)
            except (ImageToolsError, LimitExceeded, DiskError) as error:
                return [MirrorFailure(str(each.reference), error, is_target_error=True) for each in requests]


class AttachedTask(Struct, frozen=True):
    """Looks for signatures and other artifacts of images."""

    access: MirrorAccess

    def __call__(
        self, groups: Sequence[Sequence[PlannedImage]]
    ) -> list[tuple[list[MirrorRequest], list[MirrorFailure]]]:
        """Return the requests and failures for each group of images of one repository."""
        source, _ = self.access.open()
        apis: dict[str, bool] = {}
        return [search_repository(group, source, apis) for group in groups]


class SharedBlob(Struct, frozen=True):
    """A blob of several images, with its source and the name that its repository in the target is derived from."""

    blob: Descriptor
    source: Reference
    target_name: Reference
    mount_from: Reference | None = None


class BlobTask(Struct, frozen=True):
    """Copies blobs that several images share, so that each is transferred once."""

    access: MirrorAccess
    workers: int

    def __call__(self, blobs: Sequence[SharedBlob]) -> list[int]:
        """Return the bytes that were read from the source for each blob.

        Failures are ignored, because the copies of the images that need the blob report them.
        """
        source, target = self.access.open()

        def copy(shared: SharedBlob) -> int:
            meter, from_repository = TransferMeter(NO_PROGRESS), source.repository(shared.source)
            transfer = BlobTransfer(shared.blob, from_repository, meter, is_reported=False)
            mount_from = source.target(shared.mount_from) if shared.mount_from else from_repository
            with suppress(OpmkitError, SourceFailed):
                target.repository(shared.target_name).put_blob(shared.blob, transfer.open, mount_from=mount_from)
            return meter.transferred

        with WorkerPool(self.workers, "mirror") as pool:
            return list(pool.map(copy, blobs))


class CopyRequest(Struct, frozen=True):
    """An image to copy, by digest, and repositories of the target that have some of its blobs, by digest."""

    request: MirrorRequest
    holders: Mapping[str, Reference]


class CopyOutcome(Struct, frozen=True):
    """The result of a batch of images.

    Attributes:
        is_copied: Whether each image is complete in the target.
        failures: The failures by the position of the image.
        transferred: Bytes of blobs that were read from the sources.
    """

    is_copied: tuple[bool, ...]
    failures: Mapping[int, MirrorFailure]
    transferred: int


class CopyTask(Struct, frozen=True):
    """Copies images with all of their blobs."""

    access: MirrorAccess
    plan_options: MirrorPlanOptions
    copy_options: CopyOptions

    def __call__(self, images: Sequence[CopyRequest]) -> list[CopyOutcome]:
        """Return one result for all images; after a failure, the others are only copied if copying is to continue."""
        source, target = self.access.open()
        holders = {digest: source.target(name) for image in images for digest, name in image.holders.items()}
        requests = [image.request for image in images]
        with ManifestSpool() as spool:
            plan = combine_planned(plan_requests(requests, source, target, spool, self.plan_options))
            copy = MirrorCopy(plan, source, target, spool, self.copy_options, mount_sources=holders)
            if not plan.failures or self.copy_options.continue_on_errors:
                try:
                    copy.run()
                except OpmkitError:
                    if not copy.report().failures:  # the error is not one of an image
                        raise
            report = copy.report()
        complete = {id(image.request) for image in (*report.copied, *report.present)}
        failed = {failure.image: failure for failure in report.failures}
        failures = {at: failed[name] for at, each in enumerate(requests) if (name := str(each.reference)) in failed}
        return [CopyOutcome(tuple(id(each) in complete for each in requests), failures, report.transferred)]


class PlannedCopy(Protocol):
    """The copying of the images of a plan, such as `MirrorCopy`."""

    def run(self) -> MirrorReport:
        """Copy the images; see `MirrorCopy.run`."""
        ...

    def report(self) -> MirrorReport:
        """Return what was done so far."""
        ...


class MirrorEngine(Protocol):
    """The work on the images of a mirror."""

    def plan(self, requests: Sequence[MirrorRequest], progress: Progress) -> MirrorPlan:
        """Find out which images the target lacks; see `plan_mirror`."""
        ...

    def attached(
        self, images: Sequence[PlannedImage], progress: Progress
    ) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
        """Return requests for the artifacts of images; see `attached_requests`."""
        ...

    def prepare_copy(self, plan: MirrorPlan, options: CopyOptions, progress: Progress) -> PlannedCopy:
        """Prepare to copy the images that the target lacks."""
        ...


class LocalEngine(Struct, frozen=True):
    """Engine that does the work in this process; manifests are in ``spool`` between planning and copying."""

    source: MirrorSource
    target: MirrorTarget
    spool: ManifestSpool
    options: MirrorPlanOptions

    def plan(self, requests: Sequence[MirrorRequest], progress: Progress) -> MirrorPlan:
        """Find out which images the target lacks; see `plan_mirror`."""
        return plan_mirror(requests, self.source, self.target, self.spool, self.options, progress=progress)

    def attached(
        self, images: Sequence[PlannedImage], progress: Progress
    ) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
        """Return requests for the artifacts of images; see `attached_requests`."""
        return attached_requests(images, self.source, workers=self.options.workers, progress=progress)

    def prepare_copy(self, plan: MirrorPlan, options: CopyOptions, progress: Progress) -> PlannedCopy:
        """Prepare to copy the images that the target lacks."""
        return MirrorCopy(plan, self.source, self.target, self.spool, options, progress=progress)
