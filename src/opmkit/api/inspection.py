"""Operations that read indexes: validation, comparison and lists of images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS
from opmkit.index.fbc.compat import CatalogCompat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.policy import Policy
    from opmkit.core.progress import Progress
    from opmkit.index.diff.differences import IndexComparison
    from opmkit.index.fbc.check.result import CatalogResult
    from opmkit.index.operations.gate import IndexRequirements
    from opmkit.index.operations.related_images import UsedImage


class InspectionOperations(Session):
    """Operations that read indexes."""

    def validate_index(
        self,
        index: str,
        requirements: IndexRequirements | None = None,
        *,
        compat: CatalogCompat = CatalogCompat.NEWEST,
        policy: Policy | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> CatalogResult:
        """Validate an index, also against a published one if the requirements name it.

        Args:
            index: Index image, catalog directory or database file.
            requirements: Requirements in addition to validity.
            compat: Release of Go opm whose rules for valid catalogs apply.
            policy: Severities, allowed findings, and requirements that the others do not set; see `read_policy`.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: An index does not exist, or is not an index; or the profile is unknown.
            BundleError, ImageToolsError: An image cannot be read, or the key or policy of signatures is invalid.
            ValueError: The requirements name a fragment, or ask for bundles or permissions, but no published index.
        """
        from opmkit.bundle.policy import Policy
        from opmkit.index.fbc.check.result import validate
        from opmkit.index.image.source import IndexSource
        from opmkit.index.operations.gate import IndexRequirements, load_with_profile, with_published

        policy = policy or Policy()
        required = (requirements or IndexRequirements()).with_defaults(policy.catalog)
        if required.fragment and not required.against:
            raise ValueError("a fragment requires the published index")
        if required.pull_bundles and not required.against:
            raise ValueError("bundles are only compared with a published index")
        if required.allowed_permissions is not None and not required.against:
            raise ValueError("permissions are only compared with a published index")
        checked, notices = with_published(
            required.policy(), required.against, lambda: self._registry_tool, fragment=required.fragment
        )
        if required.pull_bundles:
            checked = structs.replace(checked, read_bundles=self._bundle_reader(progress))
        if required.allowed_permissions is not None:
            checked = structs.replace(checked, read_permissions=self._permission_reader(progress))
        source = IndexSource.resolve(lambda: self._registry_tool, index)
        catalog = load_with_profile(source, lambda: self._registry_tool, required.profile)
        loaded = catalog.loaded
        checked = structs.replace(checked, groups=catalog.groups)
        if required.require_signature is not None:
            from opmkit.supply.sign.bundle_images import with_signatures

            checked = with_signatures(checked, required.require_signature, loaded, self._client)
        result = validate(
            loaded,
            compat,
            checked,
            target=index,
            allow_empty=not catalog.is_read,
            further=catalog.findings,
            root=source.location if isinstance(source.location, Path) and source.location.is_dir() else None,
        )
        return policy.apply_with_unused(replace(result, notices=notices, location=source.location), checked.rules)

    def compare_indexes(
        self,
        before: str,
        after: str,
        *,
        fail_on: Sequence[str] = (),
        pull_bundles: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> IndexComparison:
        """Compare the packages, channels, heads, default channels and bundles of two indexes, which may be invalid.

        Args:
            before: Index image, catalog directory or database file.
            after: The index to compare with it.
            fail_on: Kinds of differences that fail the gate: ``added``, ``removed``, ``changed``, or with an object,
                such as ``removed-bundle``.
            pull_bundles: Read the permissions and CustomResourceDefinitions of added bundles, and of the versions
                before them, from the bundle images if the index does not contain them.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: An index does not exist, or cannot be read.
            BundleError, ImageToolsError: An image cannot be read.
            ValueError: A kind is unknown.
        """
        from opmkit.index.diff.differences import IndexComparison, find_unknown_kind
        from opmkit.index.operations.diff import compare_indexes

        if unknown := find_unknown_kind(fail_on):
            raise ValueError(unknown)
        read = self._bundle_reader(progress) if pull_bundles else None
        read_permissions = self._permission_reader(progress) if pull_bundles else None
        diff = compare_indexes(self._tool, before, after, read, read_permissions)
        return IndexComparison.from_diff(diff, fail_on)

    def list_images(
        self,
        index: str,
        filters: Sequence[str] = (),
        *,
        only: Literal["all", "bundle", "related"] = "all",
        recursive: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> list[UsedImage]:
        """List the bundle images and related images of an index with the bundles that need them.

        Args:
            index: Index image, catalog directory or database file; or a bundle.
            filters: Packages, channels and versions: ``PACKAGE[:CHANNEL,...][@RANGE]``; by default all bundles.
            only: Images to list.
            recursive: Follow related images that are bundles; this reads all related images.
            progress: Receiver of progress reports.

        Returns:
            Each image once, sorted by name.

        Raises:
            CatalogError: The index cannot be read, or a package or channel does not exist.
            BundleError: A bundle is invalid.
            ImageToolsError: An image cannot be read.
        """
        from opmkit.index.image.source import IndexSource
        from opmkit.index.operations.filter.result import PackageFilter
        from opmkit.index.operations.related_images import follow_bundles, group_by_image, index_images

        parsed = list(map(PackageFilter.parse, filters))
        uses = index_images(IndexSource.find(lambda: self._tool, index, build_context=True), parsed)
        if recursive:
            uses = follow_bundles(self._tool, uses, progress=progress)
        return group_by_image(use for use in uses if only in ("all", use.kind.value))
