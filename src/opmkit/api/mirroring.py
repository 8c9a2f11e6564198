"""Operations that mirror indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.progress import Progress
    from opmkit.supply.mirror.catalog_deletion import DeletionOptions, PlannedDeletion
    from opmkit.supply.mirror.deletion import MirrorDeletion
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
            CatalogError: The index is invalid, or the filters are; or a Helm chart of the image set cannot be rendered.
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

    def plan_mirror_deletion(
        self,
        content: Sequence[str] | ImageSet,
        to: str,
        options: DeletionOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> MirrorDeletion:
        """Return the images that `delete_mirror` would delete, and those that it would keep; nothing is changed.

        Args:
            content: Catalogs, or an image set, as for `delete_mirror`.
            to: Registry, as for `delete_mirror`.
            options: Catalogs to keep, and concurrency.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: A catalog cannot be read, so that the images which it needs are unknown.
            ImageToolsError: The registry lacks a catalog, cannot be read, or does not list its repositories.
        """
        return self.open_mirror_deletion(content, to, options, progress=progress).result

    def delete_mirror(
        self,
        content: Sequence[str] | ImageSet,
        to: str,
        options: DeletionOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> MirrorDeletion:
        """Delete catalogs from a registry that they were mirrored to, with the images that no other catalog needs.

        The catalogs are deleted last, so that an interrupted call can be repeated. The registry frees the space of
        layers itself.

        Args:
            content: Names of catalogs in their sources or in the registry; or an `ImageSet`, whose catalogs and other
                images are deleted. If that is one of images to delete, only the selected bundles are.
            to: ``REGISTRY[/PREFIX]``, as for `mirror`.
            options: Catalogs to keep, and concurrency.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: A catalog cannot be read, so that the images which it needs are unknown.
            ImageToolsError: The registry lacks a catalog, cannot be read, or refuses to list repositories or to delete.
                Failures to delete single images are in the result; the catalogs are then not deleted.
        """
        return self.open_mirror_deletion(content, to, options, progress=progress).run()

    def open_mirror_deletion(
        self,
        content: Sequence[str] | ImageSet,
        to: str,
        options: DeletionOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> PlannedDeletion:
        """Plan a deletion; the method ``run`` of the result deletes the images.

        Args:
            content: Catalogs, or an image set, as for `delete_mirror`.
            to: Registry, as for `delete_mirror`.
            options: Catalogs to keep, and concurrency.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: A catalog cannot be read, so that the images which it needs are unknown.
            ImageToolsError: The registry lacks a catalog, cannot be read, or does not list its repositories.
        """
        from opmkit.imagetools.tools.registry import RegistryTool
        from opmkit.supply.mirror.catalog_deletion import CatalogDeletion, DeletionOptions
        from opmkit.supply.mirror.target import parse_registry_location

        chosen = options or DeletionOptions()
        tool = RegistryTool(self._client, self._store, workers=chosen.workers)
        return CatalogDeletion(tool, self._client, parse_registry_location(to), chosen, progress).open(content)
