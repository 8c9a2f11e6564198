"""The change that pulls bundle images and adds them to an index."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.pull import BundleFetcher, pull_bundles
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.index.change import Change, ChangeResult, DatabaseChange, EditResult
from opmkit.index.errors import CatalogError
from opmkit.index.operations.add.errors import UnwantedDifference
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.sqlite.rows import channel_bundle_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.core.errors import OpmkitError
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class AddBundles(Change):
    """Pull bundle images and add them.

    The ``fetcher`` has started to read the first of them, if given.
    """

    tool: ContainerTool
    images: Sequence[str]
    options: AddOptions = field(default_factory=AddOptions)
    progress: Progress = NO_PROGRESS
    fetcher: BundleFetcher | None = None

    @property
    def supports_databases(self) -> bool:
        """Whether no placement is given: a database stores the channels and edges that bundles declare."""
        return self.options.placement is None

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Add the bundles to a database."""
        from opmkit.index.operations.add.sqlite import add_bundles

        self.check_database_support()
        warnings: list[str] = []
        skipped: list[str] = []
        bundles: Iterable[Bundle] = self._pull(warnings)
        if self.options.skip_present:
            bundles = self._without_present(database, bundles, skipped)
        failures: tuple[OpmkitError, ...]
        try:
            failures = add_bundles(database, bundles, self.options).failures
        except (BundleError, DocumentError, ImageToolsError, LimitExceeded, DiskError) as error:
            if not self.options.permissive:
                raise
            failures = (error,)
        return ChangeResult(warnings=tuple(warnings), skipped=tuple(skipped), failures=failures)

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return what users of installed versions lose; raise UnwantedDifference for the kinds to fail on."""
        from opmkit.index.diff.differences import select_differences

        losses = DatabaseChange.review(self, diff)
        if unwanted := select_differences(diff, self.options.fail_on):
            raise UnwantedDifference(unwanted, losses, self.options.fail_on)
        return losses

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Add the bundles to a file-based catalog."""
        from opmkit.index.fbc.csv_metadata import migration_level
        from opmkit.index.operations.add.fbc import add_bundles
        from opmkit.index.operations.add.fbc_checks import NewBundle

        options = self.options
        warnings: list[str] = []
        skipped: list[str] = []
        present = {(blob.package, blob.name): blob.image for blob in blobs.bundles}
        new = []
        try:
            for bundle in self._pull(warnings):
                _check_image(bundle.image)
                image = present.get((bundle.package, bundle.name), "")
                if options.skip_present and self._is_same_image(image, bundle.image):
                    skipped.append(bundle.image)
                else:
                    level = options.level or migration_level(blobs, bundle.package)
                    new.append(NewBundle.from_bundle(bundle, level))
        except (BundleError, DocumentError, ImageToolsError, LimitExceeded, DiskError) as error:
            if not options.permissive:
                raise
            return EditResult(blobs, warnings=tuple(warnings), skipped=tuple(skipped), failures=(error,))
        edit = add_bundles(blobs, new, options)
        return replace(edit, warnings=(*warnings, *edit.warnings), skipped=tuple(skipped))

    def _pull(self, warnings: list[str]) -> Iterable[Bundle]:
        fetcher = self.fetcher or BundleFetcher(self.tool)
        return pull_bundles(fetcher, self.images, warn=warnings.append, progress=self.progress)

    def _without_present(
        self, database: IndexDatabase, bundles: Iterable[Bundle], skipped: list[str]
    ) -> Iterator[Bundle]:
        """Yield the bundles that the index does not have from the same image; append other images to ``skipped``."""
        for bundle in bundles:
            if self._is_same_image(channel_bundle_image(database, bundle.name), bundle.image):
                skipped.append(bundle.image)
            else:
                yield bundle

    def _is_same_image(self, present: str, image: str) -> bool:
        """Return whether both names are equal or currently have the same digest; "" equals nothing."""
        if not present or not image or present == image:
            return bool(present) and present == image
        try:
            return self.tool.digest(parse_image_reference(present)) == self.tool.digest(parse_image_reference(image))
        except NotFound:  # an image that was deleted since cannot be compared
            return False


def _check_image(image: str) -> None:
    """Raise CatalogError for an image that no cluster can pull; "" stands for no image."""
    try:
        Reference.parse(image or "none")
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        raise CatalogError(
            f"{image}: cannot be recorded in a file-based catalog: clusters cannot pull it",
            hint=f"pass the bundle as SOURCE=IMAGE with an image to record, such as {image}=quay.io/me/bundle:1",
        ) from error
