"""Operations that mirror indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from opmkit.core.progress import Progress
    from opmkit.supply.mirror.catalog import CatalogSelection
    from opmkit.supply.mirror.layout_source import LayoutSource
    from opmkit.supply.mirror.result import MirrorOptions, MirrorResult
    from opmkit.supply.mirror.target import MirrorTarget


class MirrorOperations(Session):
    """Operations that mirror indexes."""

    def plan_mirror(
        self, index: str, to: str, options: MirrorOptions | None = None, *, progress: Progress = NO_PROGRESS
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
        return self._mirror(index, to, options, progress, is_dry_run=True)

    def mirror(
        self, index: str, to: str, options: MirrorOptions | None = None, *, progress: Progress = NO_PROGRESS
    ) -> MirrorResult:
        """Copy an index with its bundle images and all related images to a registry, a directory or an archive.

        Only what the target lacks is transferred. The catalog is copied last, so that an interrupted call can be
        repeated.

        Args:
            index: Index image, catalog directory or database file; or a directory or archive with a mirror, all of
                whose images are copied to a registry.
            to: ``REGISTRY[/PREFIX]``, a directory such as ``./mirror``, or ``oci-archive:FILE``.
            options: Selection of images, and concurrency.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The index is invalid, or the filters are.
            ImageToolsError: An image cannot be copied, and ``continue_on_errors`` is not set; or the target keeps
                failing. The catalog in the target is unchanged.
            ValueError: An option does not apply to the index or to the target.
        """
        return self._mirror(index, to, options, progress, is_dry_run=False)

    def _mirror(
        self, index: str, to: str, options: MirrorOptions | None, progress: Progress, *, is_dry_run: bool
    ) -> MirrorResult:
        from opmkit.supply.mirror.locations import find_layout_source, open_target
        from opmkit.supply.mirror.result import MirrorOptions
        from opmkit.supply.mirror.target import ArchiveLocation, parse_location

        chosen, location = options or MirrorOptions(), parse_location(to)
        if chosen.have and not isinstance(location, ArchiveLocation):
            raise ValueError("the option have requires an archive as the target")
        with open_target(self._client, location, have=chosen.have, max_components=chosen.max_nested_paths) as target:
            if source := find_layout_source(index):
                if target.shares_blobs or chosen.needs_index:
                    raise ValueError(f"{index}: a mirror can only be copied to a registry, with all of its images")
                return self._load(source, target, chosen, progress, is_dry_run=is_dry_run)
            selection = _selection(chosen, to)
            return self._copy(index, target, selection, chosen, progress, is_dry_run=is_dry_run)

    def _copy(
        self,
        index: str,
        target: MirrorTarget,
        selection: CatalogSelection,
        options: MirrorOptions,
        progress: Progress,
        *,
        is_dry_run: bool,
    ) -> MirrorResult:
        """Mirror an index."""
        from opmkit.supply.mirror.copy import CopyOptions
        from opmkit.supply.mirror.locations import commit_target
        from opmkit.supply.mirror.mirror import open_mirror
        from opmkit.supply.mirror.plan import MirrorPlanOptions
        from opmkit.supply.mirror.result import MirrorResult

        plan = MirrorPlanOptions(selection.platforms, is_dry_run, options.workers)
        with open_mirror(
            self._registry_tool,
            self._client,
            target,
            index,
            selection,
            plan,
            signatures=options.signatures,
            progress=progress,
        ) as opened:
            if not is_dry_run:
                opened.run(CopyOptions(options.continue_on_errors, options.workers), progress=progress)
                commit_target(target, opened.described_images(), options.have)
            return MirrorResult.from_mirror(opened)

    def _load(
        self,
        source: LayoutSource,
        target: MirrorTarget,
        options: MirrorOptions,
        progress: Progress,
        *,
        is_dry_run: bool,
    ) -> MirrorResult:
        """Copy the images of a directory or archive to a registry."""
        from opmkit.supply.mirror.copy import CopyOptions
        from opmkit.supply.mirror.errors import MirrorFailed
        from opmkit.supply.mirror.load import open_mirror_load
        from opmkit.supply.mirror.result import MirrorResult

        with open_mirror_load(source, target, measure=is_dry_run, workers=options.workers, progress=progress) as opened:
            failures = opened.plan.failures
            if failures and not is_dry_run and not options.continue_on_errors:
                raise MirrorFailed(failures, len(opened.plan.images) + len(failures))
            if not is_dry_run:
                opened.run(CopyOptions(options.continue_on_errors, options.workers), progress=progress)
            return MirrorResult.from_mirror(opened)


def _selection(options: MirrorOptions, to: str) -> CatalogSelection:
    """Return the part of the index to mirror; raise CatalogError if a filter is invalid."""
    from opmkit.imagetools.spec import Platform
    from opmkit.index.operations.filter.package_filter import PackageFilter
    from opmkit.supply.mirror.catalog import CatalogSelection
    from opmkit.supply.mirror.target import parse_location, parse_name_in_target

    name = options.target_catalog
    return CatalogSelection(
        filters=tuple(map(PackageFilter.parse, options.filters)),
        default_channels=options.default_channels,
        with_dependencies=options.with_dependencies,
        platforms=tuple(map(Platform.parse, options.platforms)),
        binary_image=options.binary_image,
        name=parse_name_in_target(name, parse_location(to)) if name else None,
    )
