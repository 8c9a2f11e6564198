"""Mirror an index, or the images in a directory or archive, as `MirrorOptions` say."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from opmkit.imagetools.spec import Platform
from opmkit.index.operations.filter.result import PackageFilter
from opmkit.supply.mirror.catalog import CatalogSelection
from opmkit.supply.mirror.copy import CopyOptions
from opmkit.supply.mirror.errors import MirrorFailed, UnexpectedMirror
from opmkit.supply.mirror.load import MirrorLoad, open_mirror_load
from opmkit.supply.mirror.locations import commit_target, find_layout_source, open_target
from opmkit.supply.mirror.mirror import IndexMirror, MirrorDistribution, open_mirror
from opmkit.supply.mirror.plan import MirrorPlanOptions
from opmkit.supply.mirror.result import MirrorResult
from opmkit.supply.mirror.target import RegistryLocation, parse_name_in_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.core.progress import Progress
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.supply.mirror.locations import LayoutSource
    from opmkit.supply.mirror.result import MirrorOptions
    from opmkit.supply.mirror.target import MirrorLocation, MirrorTarget


@dataclass(frozen=True, slots=True)
class MirrorAction:
    """The action of mirroring to one target.

    Attributes:
        tool: Reads indexes.
        client: Reads and writes images.
        location: The target.
        options: The options.
        insecure: Whether a registry has no TLS, or a certificate that is not trusted, for the manifests.
        progress: Receiver of progress reports.
    """

    tool: RegistryTool
    client: RegistryClient
    location: MirrorLocation
    options: MirrorOptions
    insecure: bool
    progress: Progress

    def plan(self, index: str, *, dry_run: bool) -> PlannedMirror:
        """Open the target, and plan what to copy to it; see `opmkit.Opm.open_mirror`."""
        options, location = self.options, self.location
        options.check_target(location)
        selection = self._selection()
        with ExitStack() as stack:
            target = stack.enter_context(
                open_target(self.client, location, have=options.have, max_components=options.max_nested_paths)
            )
            opened: IndexMirror | MirrorLoad
            if source := find_layout_source(index):
                if options.needs_index or target.shares_blobs:
                    raise UnexpectedMirror(index)
                opened = stack.enter_context(self._open_load(source, target, dry_run=dry_run))
            else:
                opened = stack.enter_context(self._open_index(index, target, selection, dry_run=dry_run))
            return PlannedMirror(self, target, opened, stack.pop_all())

    @contextmanager
    def _open_load(self, source: LayoutSource, target: MirrorTarget, *, dry_run: bool) -> Iterator[MirrorLoad]:
        options = self.options
        with open_mirror_load(
            source,
            target,
            measure=dry_run,
            workers=options.workers,
            shard=options.shard,
            progress=self.progress,
        ) as opened:
            failures = opened.plan.failures
            if failures and not dry_run and not options.continue_on_errors:
                raise MirrorFailed(failures, len(opened.plan.images) + len(failures))
            yield opened

    @contextmanager
    def _open_index(
        self, index: str, target: MirrorTarget, selection: CatalogSelection, *, dry_run: bool
    ) -> Iterator[IndexMirror]:
        options = self.options
        with (
            self._distribution() as distribution,
            open_mirror(
                self.tool,
                self.client,
                target,
                index,
                selection,
                MirrorPlanOptions(selection.platforms, dry_run, options.workers),
                signatures=options.signatures,
                distribution=distribution,
                progress=self.progress,
            ) as opened,
        ):
            yield opened

    @contextmanager
    def _distribution(self) -> Iterator[MirrorDistribution]:
        """Open the executor; leaving the block cancels its pending tasks."""
        options, location = self.options, self.location
        if options.executor is None or not isinstance(location, RegistryLocation):
            yield MirrorDistribution(shard=options.shard)
            return
        from opmkit.supply.mirror.worker_engine import MirrorAccess, MirrorWorkers

        access = MirrorAccess(options.executor.worker, location, options.max_nested_paths)
        with options.executor.location.open() as pool:
            yield MirrorDistribution(MirrorWorkers(pool, access), options.shard)

    def _selection(self) -> CatalogSelection:
        """Return the part of the index to mirror; raise CatalogError or ImageToolsError if an option is invalid."""
        options, name = self.options, self.options.target_catalog
        return CatalogSelection(
            platforms=tuple(map(Platform.parse, options.platforms)),
            filters=tuple(map(PackageFilter.parse, options.filters)),
            default_channels=options.default_channels,
            with_dependencies=options.with_dependencies,
            binary_image=options.binary_image,
            name=parse_name_in_target(name, self.location) if name else None,
        )

    def write_manifests(self, opened: IndexMirror | MirrorLoad) -> tuple[str, ...]:
        """Write the manifests for the images that the target has, if requested; return the names of the files."""
        if self.options.manifests is None:
            return ()
        from opmkit.supply.mirror.cluster_manifests import (
            MirrorPolicy,
            cluster_manifests,
            repository_rules,
            write_cluster_manifests,
        )

        policy = self.options.policy or MirrorPolicy()
        rules = repository_rules((*opened.report.copied, *opened.report.present))
        manifests = cluster_manifests(rules, [catalog.reference for catalog in opened.catalogs], policy, self.tool)
        block = policy.never_contact_source
        return write_cluster_manifests(self.options.manifests, manifests, insecure=self.insecure, block=block)


@dataclass(frozen=True, slots=True)
class PlannedMirror:
    """A planned mirror of an index, or of the images in a directory or archive; used in a ``with`` block."""

    _action: MirrorAction
    _target: MirrorTarget
    _opened: IndexMirror | MirrorLoad
    _stack: ExitStack

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def result(self) -> MirrorResult:
        """The result so far: the images of the plan, and the warnings, before `run`."""
        return MirrorResult.from_mirror(self._opened)

    def run(self) -> MirrorResult:
        """Copy the images, the catalogs last; complete an archive; and write the manifests.

        After an error, `result` has what was copied.

        Raises:
            MirrorFailed: An image cannot be copied, and ``continue_on_errors`` is not set; or the target keeps failing.
                The catalog in the target is unchanged.
            CatalogError: A cluster would reject a manifest.
            DiskError: An archive, a directory or a manifest cannot be written.
        """
        options, opened = self._action.options, self._opened
        opened.run(CopyOptions(options.continue_on_errors, options.workers), progress=self._action.progress)
        images = opened.described_images() if isinstance(opened, IndexMirror) else ()
        has_changed = commit_target(self._target, images, options.have)
        manifests = self._action.write_manifests(opened)
        return replace(self.result, has_changed=has_changed, manifests=manifests)

    def to_dict(self) -> dict[str, Any]:
        """Return the result so far in JSON types."""
        return self.result.to_dict()
