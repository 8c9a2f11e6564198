"""Operations that mirror indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from opmkit.core.progress import Progress
    from opmkit.supply.mirror.image_set import ImageSet
    from opmkit.supply.mirror.operation import PlannedMirror
    from opmkit.supply.mirror.result import MirrorOptions, MirrorResult


class MirrorOperations(Session):
    """Operations that mirror indexes."""

    def plan_mirror(
        self, index: str | ImageSet, to: str, options: MirrorOptions | None = None, *, progress: Progress = NO_PROGRESS
    ) -> MirrorResult:
        """Return the images that `mirror` would copy, with their sizes; nothing is written.

        Args:
            index: Index, as for `mirror`.
            to: Target, as for `mirror`.
            options: Selection of images, and concurrency.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The index is invalid, or the filters are.
            ImageToolsError: The index or the target cannot be read. Failures of single images are in the result.
            ValueError: An option does not apply to the index or to the target.
        """
        with self.open_mirror(index, to, options, dry_run=True, progress=progress) as planned:
            return planned.result

    def mirror(
        self, index: str | ImageSet, to: str, options: MirrorOptions | None = None, *, progress: Progress = NO_PROGRESS
    ) -> MirrorResult:
        """Copy an index with its bundle images and all related images to a registry, a directory or an archive.

        Only what the target lacks is transferred. The catalog is copied last, so that an interrupted call can be
        repeated.

        Args:
            index: Index image, catalog directory or database file; or a directory or archive with a mirror, all of
                whose images are copied to a registry; or an `ImageSet` with several catalogs and other images.
            to: ``REGISTRY[/PREFIX]``, a directory such as ``./mirror``, or ``oci-archive:FILE``.
            options: Selection of images, concurrency, and manifests for clusters.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The index is invalid, or the filters are.
            ImageToolsError: An image cannot be copied, and ``continue_on_errors`` is not set; or the target keeps
                failing. The catalog in the target is unchanged.
            ValueError: An option does not apply to the index or to the target.
        """
        with self.open_mirror(index, to, options, progress=progress) as planned:
            return planned.run()

    def open_mirror(
        self,
        index: str | ImageSet,
        to: str,
        options: MirrorOptions | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> PlannedMirror:
        """Plan a mirror; within the ``with`` block of the result, its method ``run`` copies the images.

        Args:
            index: Index, as for `mirror`.
            to: Target, as for `mirror`.
            options: Options, as for `mirror`.
            dry_run: Whether the mirror is not run, so that failures do not end it, and missing bytes are counted.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The index is invalid, or the filters are.
            ImageToolsError: The index or the target cannot be read.
            ExecutorError: The scheduler cannot be reached, or the library for it is not installed.
            ValueError: An option does not apply to the index or to the target.
        """
        from opmkit.imagetools.tools.registry import RegistryTool
        from opmkit.supply.mirror.operation import MirrorAction
        from opmkit.supply.mirror.result import MirrorOptions
        from opmkit.supply.mirror.target import parse_location

        chosen = options or MirrorOptions()
        tool = RegistryTool(self._client, self._store, workers=chosen.workers)
        insecure = self.registries.plain_http or not self.registries.verify_tls
        action = MirrorAction(tool, self._client, parse_location(to), chosen, insecure, progress)
        return action.plan(index, dry_run=dry_run)
