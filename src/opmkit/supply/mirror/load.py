"""Loading of a mirror in a directory or archive into a registry."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference
from opmkit.supply.mirror.copy import CopyOptions, MirrorCopy
from opmkit.supply.mirror.mirror import MirroredCatalog
from opmkit.supply.mirror.model import MirrorPlan, MirrorReport, MirrorRequest
from opmkit.supply.mirror.plan import DEFAULT_WORKERS, ManifestSpool, MirrorPlanOptions, plan_mirror
from opmkit.supply.mirror.recording import MirrorRecording, SubjectImages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.core.shard import Shard
    from opmkit.imagetools.spec import Platform
    from opmkit.supply.mirror.description import MirroredImage
    from opmkit.supply.mirror.locations import LayoutSource
    from opmkit.supply.mirror.model import PlannedImage
    from opmkit.supply.mirror.record import RecordSubject
    from opmkit.supply.mirror.target import MirrorTarget


class MirrorLoad:
    """The copying of all images of a directory or archive to a target.

    Attributes:
        plan: What is to be copied.
    """

    def __init__(
        self,
        plan: MirrorPlan,
        source: LayoutSource,
        target: MirrorTarget,
        spool: ManifestSpool,
        recording: MirrorRecording,
    ) -> None:
        """Use the plan for the images of ``source``."""
        self.plan = plan
        self._recording = recording
        self._source = source
        self._target = target
        self._spool = spool
        self._copy: MirrorCopy | None = None

    @property
    def report(self) -> MirrorReport:
        """The result so far."""
        return self._copy.report() if self._copy else MirrorReport((), self.plan.present, self.plan.failures)

    @property
    def catalogs(self) -> list[MirroredCatalog]:
        """The catalogs in the target."""
        return [
            MirroredCatalog(
                image.target, image.tag, image.digest, image.request.reference.name, is_present=image.is_present
            )
            for image in self.plan.images
            if image.request.last
        ]

    def run(self, options: CopyOptions, *, progress: Progress = NO_PROGRESS) -> MirrorReport:
        """Copy the images, the catalogs last.

        Raises:
            MirrorFailed: An image cannot be copied, and `CopyOptions.continue_on_errors` is not set; or the target
                keeps failing.
        """
        self._recording.write()
        omitted = self._source.description.omitted
        holders = {digest: self._target.repository(Reference.parse(name)) for digest, name in omitted.items()}
        self._copy = MirrorCopy(
            self.plan, self._source, self._target, self._spool, options, mount_sources=holders, progress=progress
        )
        report = self._copy.run()
        self._recording.confirm()
        return report


@contextmanager
def open_mirror_load(
    source: LayoutSource,
    target: MirrorTarget,
    *,
    measure: bool = False,
    overwrite_tags: bool = False,
    workers: int = DEFAULT_WORKERS,
    shard: Shard | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[MirrorLoad]:
    """Plan to copy the images of a directory or archive; `MirrorLoad.run` within the block does so.

    Their names, tags and digests in the target are those of a mirror without a directory or archive in between.

    Args:
        source: The directory or archive.
        target: The registry.
        measure: Whether to determine how many bytes of each image the target lacks.
        overwrite_tags: Whether to move tags of the target that name other images, which this mirror has not set.
        workers: The number of images that are read at the same time.
        shard: The part of the images to copy, without catalogs, since the target may lack the images of other parts.
        progress: A receiver of progress reports.
    """
    groups: dict[tuple[Platform, ...], list[MirrorRequest]] = defaultdict(list)
    for image in source.description.images.values():
        if shard and (image.is_catalog or not shard.contains(image.name)):
            continue
        groups[image.platforms].append(_request(image))
    with ManifestSpool() as spool:
        plans = [
            plan_mirror(
                requests, source, target, spool, MirrorPlanOptions(platforms, measure, workers), progress=progress
            )
            for platforms, requests in groups.items()
        ]
        plan = reduce(MirrorPlan.merge, plans, MirrorPlan(()))
        recording = MirrorRecording(target, _groups(plan, source), overwrite_tags=overwrite_tags)
        yield MirrorLoad(recording.without_conflicts(plan), source, target, spool, recording)


def _groups(plan: MirrorPlan, source: LayoutSource) -> list[SubjectImages]:
    """Return the images of each subject, none if an earlier release wrote the directory or archive."""
    groups: dict[RecordSubject, list[PlannedImage]] = defaultdict(list)
    for image in plan.images:
        described = source.description.images[f"{image.request.reference.name}:{image.tag}"]
        for subject in described.subjects:
            groups[subject].append(image)
    return [SubjectImages(subject, tuple(images)) for subject, images in groups.items()]


def _request(image: MirroredImage) -> MirrorRequest:
    reference = image.reference
    return MirrorRequest(
        reference.with_digest(image.digest), image.needed_by, tag=str(reference.tag), last=image.is_catalog
    )
