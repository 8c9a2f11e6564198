"""Tasks of mirrors for other processes and machines.

Arguments are references and options, and results are plans and reports: workers transfer the content by themselves.
A task that is run again finds in the target what it has copied before.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.progress import NO_PROGRESS
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import ImageToolsError
from opmkit.supply.mirror.attached import search_repository
from opmkit.supply.mirror.blob_stream import BlobTransfer, SourceFailed, TransferMeter
from opmkit.supply.mirror.copy import CopyOptions, MirrorCopy
from opmkit.supply.mirror.model import MirrorFailure
from opmkit.supply.mirror.plan import PlanOptions, combine_planned, plan_requests
from opmkit.supply.mirror.registry_target import RegistryTarget
from opmkit.supply.mirror.spool import ManifestSpool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.worker_options import WorkerOptions
    from opmkit.supply.mirror.model import MirrorRequest, PlannedImage
    from opmkit.supply.mirror.target import RegistryLocation


@dataclass(frozen=True, slots=True)
class MirrorAccess:
    """Access of workers to the sources and the target of a mirror; see `RegistryTarget`."""

    worker: WorkerOptions
    location: RegistryLocation
    max_components: int | None = None

    def open(self) -> tuple[RegistryClient, RegistryTarget]:
        """Return the source and the target; raise ExecutorError if this program is another release."""
        client = self.worker.client()
        return client, RegistryTarget(client, self.location, max_components=self.max_components)


@dataclass(frozen=True, slots=True)
class PlanTask:
    """Plans images."""

    access: MirrorAccess
    options: PlanOptions

    def __call__(self, requests: Sequence[MirrorRequest]) -> list[PlannedImage | MirrorFailure]:
        """Return the planned image or failure of each request; only failures of the target are target errors."""
        source, target = self.access.open()
        with ManifestSpool() as spool:
            try:
                return plan_requests(requests, source, target, spool, self.options)
            except (ImageToolsError, LimitExceeded, DiskError) as error:
                return [MirrorFailure(str(each.reference), error, is_target_error=True) for each in requests]


@dataclass(frozen=True, slots=True)
class AttachedTask:
    """Looks for signatures and other artifacts of images."""

    access: MirrorAccess

    def __call__(
        self, groups: Sequence[Sequence[PlannedImage]]
    ) -> list[tuple[list[MirrorRequest], list[MirrorFailure]]]:
        """Return the requests and failures for each group of images of one repository."""
        source, _ = self.access.open()
        apis: dict[str, bool] = {}
        return [search_repository(group, source, apis) for group in groups]


@dataclass(frozen=True, slots=True)
class SharedBlob:
    """A blob of several images, with its source and the name that its repository in the target is derived from."""

    blob: Descriptor
    source: Reference
    target_name: Reference
    mount_from: Reference | None = None


@dataclass(frozen=True, slots=True)
class BlobTask:
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


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """An image to copy, by digest, and repositories of the target that have some of its blobs, by digest."""

    request: MirrorRequest
    holders: Mapping[str, Reference]


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """The result of a batch of images.

    Attributes:
        is_copied: Whether each image is complete in the target.
        failures: The failures by the position of the image.
        transferred: Bytes of blobs that were read from the sources.
    """

    is_copied: tuple[bool, ...]
    failures: Mapping[int, MirrorFailure]
    transferred: int


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copies images with all of their blobs."""

    access: MirrorAccess
    plan_options: PlanOptions
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
