"""Mirror an index, an image set, or the images in a directory or archive, as `MirrorOptions` say."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, structs

from opmkit.core.files import check_output
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.signatures.errors import VerificationFailed
from opmkit.imagetools.spec import Platform
from opmkit.supply.mirror.catalog import CatalogSelection
from opmkit.supply.mirror.copy import CopyOptions
from opmkit.supply.mirror.errors import MirrorFailed, UnexpectedMirror
from opmkit.supply.mirror.load import MirrorLoad, open_mirror_load
from opmkit.supply.mirror.locations import commit_target, find_layout_source, open_target
from opmkit.supply.mirror.mirror import IndexMirror, MirrorContent, MirrorDistribution, open_mirror
from opmkit.supply.mirror.plan import MirrorPlanOptions
from opmkit.supply.mirror.result import MirrorPolicy, MirrorResult
from opmkit.supply.mirror.target import RegistryLocation, parse_name_in_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.core.progress import Progress
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.change import Change
    from opmkit.supply.mirror.catalog_deletion import CatalogDeletion
    from opmkit.supply.mirror.deletion import MirrorDeletion
    from opmkit.supply.mirror.image_set import ImageSet
    from opmkit.supply.mirror.locations import LayoutSource
    from opmkit.supply.mirror.result import MirrorOptions
    from opmkit.supply.mirror.target import MirrorLocation, MirrorTarget


class MirrorAction(Struct, frozen=True):
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

    def plan(self, index: str | ImageSet, *, dry_run: bool) -> PlannedMirror:
        """Open the target, and plan what to copy to it; see `opmkit.Opm.open_mirror`."""
        options, location = self.options, self.location
        options.check_target(location)
        content = self._content(index)
        with ExitStack() as stack:
            target = stack.enter_context(
                open_target(self.client, location, have=options.have, max_components=options.max_nested_paths)
            )
            opened: IndexMirror | MirrorLoad
            if isinstance(index, str) and (source := find_layout_source(index)):
                if options.needs_index or target.shares_blobs:
                    raise UnexpectedMirror(index)
                if not source.is_accepted(self.client):
                    raise VerificationFailed(
                        f"{index}: not accepted by the policy for signatures, and its images are not signed there",
                        hint="add its path to the policy as a scope with insecureAcceptAnything",
                    )
                opened = stack.enter_context(self._open_load(source, target, dry_run=dry_run))
            else:
                opened = stack.enter_context(self._open_indexes(content, target, dry_run=dry_run))
            pruned = self.prune(opened, dry_run=True) if options.prune and dry_run else None
            return PlannedMirror(self, target, opened, stack.pop_all(), pruned)

    @contextmanager
    def _open_load(self, source: LayoutSource, target: MirrorTarget, *, dry_run: bool) -> Iterator[MirrorLoad]:
        options = self.options
        with open_mirror_load(
            source,
            target,
            measure=dry_run,
            overwrite_tags=options.overwrite_tags,
            workers=options.workers,
            shard=options.shard,
            progress=self.progress,
        ) as opened:
            failures = opened.plan.failures
            if failures and not dry_run and not options.continue_on_errors:
                raise MirrorFailed(failures, len(opened.plan.images) + len(failures))
            yield opened

    @contextmanager
    def _open_indexes(self, content: MirrorContent, target: MirrorTarget, *, dry_run: bool) -> Iterator[IndexMirror]:
        options = self.options
        with (
            self._distribution() as distribution,
            open_mirror(
                self.tool,
                self.client,
                target,
                content,
                MirrorPlanOptions(self._platforms(), dry_run, options.workers),
                signatures=options.signatures,
                overwrite_tags=options.overwrite_tags,
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

    def _platforms(self) -> tuple[Platform, ...]:
        return tuple(map(Platform.parse, self.options.platforms))

    def _content(self, index: str | ImageSet) -> MirrorContent:
        """Return what to mirror, and render charts.

        Raises CatalogError, ImageToolsError or ValueError if an option is invalid, and HelmError.
        """
        if not isinstance(index, str):
            return self._content_of_set(index)
        common, change, name = self._selection(), self._filter(), self.options.target_catalog
        named = parse_name_in_target(name, self.location) if name else None
        return MirrorContent(((index, structs.replace(common, change=change, name=named)),))

    def _selection(self) -> CatalogSelection:
        """Return the selection of a whole index."""
        return CatalogSelection(platforms=self._platforms(), binary_image=self.options.binary_image)

    def _content_of_set(self, images: ImageSet) -> MirrorContent:
        from opmkit.supply.mirror.charts import read_charts
        from opmkit.supply.mirror.image_set import InvalidImageSet

        if images.is_deletion:
            raise InvalidImageSet(
                f"{images.file}: describes images to delete, not to mirror", hint="write an ImageSetConfiguration"
            )
        common = self._selection()
        if self.options.selects:
            raise ValueError("an image set selects bundles itself, and names its catalogs in the target")
        charts = read_charts(images.charts)
        requests, warnings = (*images.images, *charts.requests), (*images.warnings, *charts.warnings)
        return MirrorContent(tuple(images.selections(common)), requests, images.blocked, warnings)

    def _filter(self) -> Change | None:
        """Return the change of the index that selects packages, None for the whole index."""
        options = self.options
        if not options.filters:
            return None
        from opmkit.index.operations.filter.fbc import FilterPackages
        from opmkit.index.operations.filter.result import PackageFilter

        filters = [PackageFilter.parse(text) for text in options.filters]
        return FilterPackages(filters, options.default_channels, options.with_dependencies)

    def prune(self, opened: IndexMirror | MirrorLoad, *, dry_run: bool) -> MirrorDeletion:
        """Delete what only replaced catalogs need, or plan to, if they are not replaced yet.

        The images of this mirror are kept, whether a catalog needs them or not.
        """
        from opmkit.supply.mirror.deletion import NeededImages

        needed = NeededImages()
        names = {Reference.parse(each.name).with_tag(each.tag): each.digest for each in opened.catalogs}
        for image in opened.plan.images:
            needed.digests[image.digest] = next(iter(image.request.needed_by), "this mirror")
        planned = self._deletion().open_replaced(names, needed)
        result = planned.result if dry_run else planned.run()
        return replace(result, kept_catalogs=tuple(dict.fromkeys((*map(str, names), *result.kept_catalogs))))

    def _deletion(self) -> CatalogDeletion:
        from opmkit.supply.mirror.catalog_deletion import CatalogDeletion, DeletionOptions

        options, location = self.options, self.location
        if not isinstance(location, RegistryLocation):
            raise TypeError("images can only be deleted from a registry")  # see MirrorOptions.check_target
        chosen = DeletionOptions(options.keep, options.search, options.max_nested_paths, options.workers)
        return CatalogDeletion(self.tool, self.client, location, chosen, self.progress)

    def write_manifests(self, opened: IndexMirror | MirrorLoad) -> tuple[str, ...]:
        """Write the manifests for the images that the target has, if requested; return the names of the files."""
        if self.options.manifests is None:
            return ()
        from opmkit.supply.mirror.cluster_manifests import cluster_manifests, repository_rules, write_cluster_manifests

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
    _pruned: MirrorDeletion | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def result(self) -> MirrorResult:
        """The result so far: the images of the plan, and the warnings, before `run`."""
        return replace(MirrorResult.from_mirror(self._opened), pruned=self._pruned)

    def run(self) -> MirrorResult:
        """Copy the images, the catalogs last; complete an archive; write the manifests; and prune.

        After an error, `result` has what was copied.

        Raises:
            MirrorFailed: An image cannot be copied, and ``continue_on_errors`` is not set; or the target keeps failing.
                The catalog in the target is unchanged.
            CatalogError: A cluster would reject a manifest.
            DiskError: An archive, a directory or a manifest cannot be written.
        """
        options, opened = self._action.options, self._opened
        if options.manifests is not None:
            check_output(options.manifests)  # before hours of copying
        opened.run(CopyOptions(options.continue_on_errors, options.workers), progress=self._action.progress)
        images = opened.described_images() if isinstance(opened, IndexMirror) else ()
        has_changed = commit_target(self._target, images, options.have)
        manifests = self._action.write_manifests(opened)
        pruned = self._action.prune(opened, dry_run=False) if options.prune else None
        return replace(self.result, has_changed=has_changed, manifests=manifests, pruned=pruned)

    def to_dict(self) -> dict[str, Any]:
        """Return the result so far in JSON types."""
        return self.result.to_dict()
