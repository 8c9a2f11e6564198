"""Changes of an index of either kind, one or several in one go, with the difference that they make."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.pull import pull_bundles
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.errors import CatalogError
from opmkit.index.operations.add.session import AddPlan
from opmkit.index.operations.add.sqlite import UpdateMode, add_bundles
from opmkit.index.operations.diff import IndexDiff, diff_states, read_state
from opmkit.index.operations.initialize import initialize
from opmkit.index.operations.prune import prune_packages, prune_stranded
from opmkit.index.operations.remove import remove_packages
from opmkit.index.operations.truncate import deprecate_bundles
from opmkit.index.sqlite import IndexDatabase, replace_database
from opmkit.index.sqlite.state import image_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.errors import AdvisedError
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.operations.deprecate import Statement
    from opmkit.index.operations.filter.wanted import Wanted
    from opmkit.index.operations.values import Account, Edit, Placement


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change has to say beside the difference that it made.

    ``skipped`` are bundle images that the index had already, ``failures`` what a permissive change passed over,
    ``account`` what else there is to be said.
    """

    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[AdvisedError, ...] = ()
    account: Account | None = None

    @classmethod
    def of(cls, edit: Edit) -> Outcome:
        """What an edit of a catalog has to say."""
        return cls(edit.warnings, edit.skipped, edit.failures, edit.account)


DatabaseChange = Callable[[IndexDatabase], Outcome]
"""A change of an open database; an error that it raises undoes it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an index of either kind; ``database`` is None where only a catalog has a place for it."""

    database: DatabaseChange | None
    catalog: Callable[[Blobs], Edit]

    @property
    def of_database(self) -> DatabaseChange:
        """The change of a database; raises CatalogError where there is none."""
        if self.database is None:
            raise CatalogError(
                "a database has no place for that: its channels and updates are what the bundles themselves say",
                hint=Hint("convert the index with {}", Setting.TO_CATALOG),
            )
        return self.database


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The difference between before and after, and what the change had to say."""

    diff: IndexDiff
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AddOptions:
    """How bundles are added; see :func:`opmkit.index.operations.add.sqlite.add_bundles`.

    With ``skip_present`` a bundle that the index has is passed over if its image is the same, by name or by digest.
    ``placement`` is where a catalog has them, None for what they say themselves; ``level`` what they are migrated to
    in one, None for that of the package's other bundles.
    """

    mode: str = UpdateMode.REPLACES
    permissive: bool = False
    overwrite_latest: bool = False
    substitutes: bool = False
    skip_present: bool = False
    placement: Placement | None = None
    level: MigrationLevel | None = None


def change_database(
    path: Path, change: DatabaseChange, *, must_exist: bool = False, dry_run: bool = False, durable: bool = True
) -> ChangeResult:
    """Make a change to the index database at ``path``, all or nothing; a ``dry_run`` makes it to a copy.

    What is not ``durable`` is not waited for until it is safe on disk.

    Raises CatalogError, and what the change raises; then the file is as it was, or not there.
    """
    if dry_run:
        with ScratchDirectory("opm-dry-run-") as scratch:
            copy = Path(scratch) / path.name
            if path.exists():
                shutil.copyfile(path, copy)
            return change_database(copy, change, must_exist=must_exist, durable=False)
    with replace_database(path, must_exist=must_exist, durable=durable) as database:
        before = read_state(database)
        outcome = change(database)
        return ChangeResult(diff_states(before, read_state(database)), outcome)


def change_catalog(root: Path, change: Change, *, dry_run: bool = False) -> ChangeResult:
    """Make a change to the file-based catalog in the directory ``root``, all or nothing; a ``dry_run`` writes nothing.

    Only files with something that changes are written.

    Raises InvalidCatalog for a catalog that can't be read, and what the change raises.
    """
    from opmkit.index.fbc.load import read_blobs
    from opmkit.index.fbc.rewrite import apply_changes, plan_changes
    from opmkit.index.operations.diff_fbc import diff_blobs

    before = read_blobs(root)
    edit = change.catalog(before)
    rewritten = plan_changes(root, before, edit.blobs)
    if not dry_run:
        apply_changes(root, rewritten)
    return ChangeResult(diff_blobs(before, edit.blobs), Outcome.of(edit))


def adding(
    tool: ContainerTool, images: Sequence[str], options: AddOptions | None = None, *, progress: Progress = NO_PROGRESS
) -> Change:
    """Add bundle images; raises CatalogError at once for a mode that there isn't."""
    options = options or AddOptions()
    UpdateMode.parse(options.mode)
    to_database = partial(_add, tool, images, options, progress) if options.placement is None else None
    return Change(to_database, partial(_add_to_catalog, tool, images, options, progress))


def removing(packages: Sequence[str], *, permissive: bool = False) -> Change:
    """Remove packages."""

    def from_catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.remove_fbc import without_packages

        return without_packages(blobs, packages, permissive=permissive)

    return Change(
        lambda database: Outcome(failures=remove_packages(database, packages, permissive=permissive).failures),
        from_catalog,
    )


def pruning(keep: Sequence[str], *, permissive: bool = False) -> Change:
    """Remove all packages except these; names that are not found are errors unless ``permissive``."""

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.remove_fbc import with_only_packages

        return with_only_packages(blobs, keep, permissive=permissive)

    return Change(
        lambda database: Outcome(failures=prune_packages(database, keep, permissive=permissive).failures), catalog
    )


def pruning_stranded() -> Change:
    """Remove bundles that no channel leads to."""

    def database(database: IndexDatabase) -> Outcome:
        prune_stranded(database)
        return Outcome()

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.remove_fbc import without_stranded

        return without_stranded(blobs)

    return Change(database, catalog)


def truncating(images: Sequence[str], *, permissive: bool = False, allow_package_removal: bool = False) -> Change:
    """Deprecate bundles by their images: updates end with them, and what they replace goes."""

    def database(database: IndexDatabase) -> Outcome:
        done = deprecate_bundles(database, images, permissive=permissive, allow_package_removal=allow_package_removal)
        return Outcome(failures=done.failures)

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.truncate_fbc import truncate

        return truncate(blobs, images, permissive=permissive, allow_package_removal=allow_package_removal)

    return Change(database, catalog)


def deprecating(statements: Sequence[Statement]) -> Change:
    """Say that packages, channels and bundles of a file-based catalog are deprecated, or take it back."""

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.deprecate import deprecate

        return deprecate(blobs, statements)

    return Change(None, catalog)


def filtering(
    wanted: Sequence[Wanted],
    *,
    default_channels: Mapping[str, str] | None = None,
    with_dependencies: bool = False,
    permissive: bool = False,
) -> Change:
    """Keep parts of a file-based catalog, with what keeps its update graphs valid."""

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.filter.filter import filter_blobs
        from opmkit.index.operations.values import Edit

        filtered = filter_blobs(
            blobs,
            wanted,
            default_channels=default_channels or {},
            with_dependencies=with_dependencies,
            permissive=permissive,
        )
        return Edit(filtered.blobs, filtered.warnings, account=filtered)

    return Change(None, catalog)


def initializing(directory: Path, *, permissive: bool = False) -> DatabaseChange:
    """Store the packages and bundles below a directory of manifests."""
    return lambda database: Outcome(failures=initialize(database, directory, permissive=permissive).failures)


def in_turn(changes: Sequence[Change]) -> Change:
    """Make several changes, one after the other, as one."""
    on_database = [one.database for one in changes if one.database is not None]

    def database(database: IndexDatabase) -> Outcome:
        return _joined([one(database) for one in on_database])

    def catalog(blobs: Blobs) -> Edit:
        from opmkit.index.operations.values import Edit

        edits = [Edit(blobs)]
        for change in changes:
            edits.append(change.catalog(edits[-1].blobs))
        told = _joined(list(map(Outcome.of, edits)))
        return Edit(edits[-1].blobs, told.warnings, told.skipped, told.failures)

    return Change(database if len(on_database) == len(changes) else None, catalog)


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(
        tuple(dict.fromkeys(warning for outcome in outcomes for warning in outcome.warnings)),
        tuple(image for outcome in outcomes for image in outcome.skipped),
        tuple(failure for outcome in outcomes for failure in outcome.failures),
    )


def _add(
    tool: ContainerTool, images: Sequence[str], options: AddOptions, progress: Progress, database: IndexDatabase
) -> Outcome:
    warnings: list[str] = []
    skipped: list[str] = []
    bundles: Iterable[Bundle] = pull_bundles(tool, images, warn=warnings.append, progress=progress)
    if options.skip_present:
        bundles = _absent(tool, database, bundles, skipped)
    try:
        result = add_bundles(
            database,
            bundles,
            options.mode,
            permissive=options.permissive,
            overwrite_latest=options.overwrite_latest,
            enable_alpha=options.substitutes,
        )
    except (BundleError, ImageToolsError) as error:
        if not options.permissive:
            raise
        return Outcome(tuple(warnings), tuple(skipped), (error,))
    return Outcome(tuple(warnings), tuple(skipped), result.failures)


def _absent(
    tool: ContainerTool, database: IndexDatabase, bundles: Iterable[Bundle], skipped: list[str]
) -> Iterator[Bundle]:
    """The bundles that the index hasn't from the same image; the images of the others go to ``skipped``."""
    for bundle in bundles:
        if _same_image(tool, image_of(database, bundle.name), bundle.image):
            skipped.append(bundle.image)
        else:
            yield bundle


def _add_to_catalog(
    tool: ContainerTool, images: Sequence[str], options: AddOptions, progress: Progress, blobs: Blobs
) -> Edit:
    from opmkit.index.fbc.migrate import migration_level
    from opmkit.index.operations.add.fbc import add_bundles
    from opmkit.index.operations.values import Arrival, Edit

    warnings: list[str] = []
    skipped: list[str] = []
    present = {(blob.package, blob.name): blob.image for blob in blobs.bundles}
    arrivals = []
    try:
        for bundle in pull_bundles(tool, images, warn=warnings.append, progress=progress):
            _check_image(bundle.image)
            image = present.get((bundle.package, bundle.name), "")
            if options.skip_present and _same_image(tool, image, bundle.image):
                skipped.append(bundle.image)
            else:
                arrivals.append(Arrival.of(bundle, options.level or migration_level(blobs, bundle.package)))
    except (BundleError, ImageToolsError) as error:
        if not options.permissive:
            raise
        return Edit(blobs, tuple(warnings), tuple(skipped), (error,))
    edit = add_bundles(
        blobs,
        arrivals,
        options.placement,
        AddPlan(UpdateMode.parse(options.mode), options.permissive, options.overwrite_latest, options.substitutes),
    )
    return replace(edit, warnings=(*warnings, *edit.warnings), skipped=tuple(skipped))


def _check_image(image: str) -> None:
    """Raise CatalogError for an image that no cluster can pull, and so no catalog can name; "" is none."""
    try:
        Reference.parse(image or "none")
    except ImageToolsError as error:
        raise CatalogError(
            f"a file-based catalog can't name the image {image}, for no cluster can pull that",
            advice=f"Name the image to record as SOURCE=IMAGE, such as {image}=quay.io/me/bundle:1.",
        ) from error


def _same_image(tool: ContainerTool, present: str, image: str) -> bool:
    """Whether two names are of one image: equal, or of equal digest now; "" is none."""
    if not present or not image or present == image:
        return bool(present) and present == image
    try:
        return tool.digest(parse_image_reference(present)) == tool.digest(parse_image_reference(image))
    except NotFound:  # the image that the index names is gone, so it can't be told to be the same
        return False
