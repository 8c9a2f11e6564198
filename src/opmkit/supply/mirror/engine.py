"""Engines of mirrors, which plan and copy images: in this process here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from opmkit.supply.mirror.attached import attached_requests
from opmkit.supply.mirror.copy import MirrorCopy
from opmkit.supply.mirror.plan import plan_mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.progress import Progress
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.model import MirrorFailure, MirrorPlan, MirrorReport, MirrorRequest, PlannedImage
    from opmkit.supply.mirror.plan import ManifestSpool, MirrorPlanOptions
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget


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


@dataclass(frozen=True, slots=True)
class LocalEngine:
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
