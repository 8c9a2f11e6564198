"""Changes of an index database, one or several in one go, with the difference that they make."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.pull import pull_bundles
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.progress import SILENT, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.add import UpdateMode, add_bundles
from opmkit.index.database import IndexDatabase, replace_database
from opmkit.index.database.state import image_of
from opmkit.index.deprecate import deprecate_bundles
from opmkit.index.diff import IndexDiff, diff_states, read_state
from opmkit.index.initialize import initialize
from opmkit.index.prune import prune_packages, prune_stranded
from opmkit.index.remove import remove_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.errors import AdvisedError
    from opmkit.imagetools.tools import ContainerTool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change has to say beside the difference that it made.

    ``skipped`` are bundle images that the index had already, ``failures`` what a permissive change passed over.
    """

    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[AdvisedError, ...] = ()


Change = Callable[[IndexDatabase], Outcome]
"""A change of an open database; an error that it raises undoes it."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The difference between before and after, and what the change had to say."""

    diff: IndexDiff
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AddOptions:
    """How bundles are added; see :func:`opmkit.index.add.add_bundles`.

    With ``skip_present`` a bundle that the index has is passed over if its image is the same, by name or by digest.
    """

    mode: str = UpdateMode.REPLACES
    permissive: bool = False
    overwrite_latest: bool = False
    substitutes: bool = False
    skip_present: bool = False


def change_database(
    path: Path, change: Change, *, must_exist: bool = False, dry_run: bool = False, durable: bool = True
) -> ChangeResult:
    """Make a change to the index database at ``path``, all or nothing; a ``dry_run`` makes it to a copy.

    What is not ``durable`` is not waited for until it is safe on disk.

    Raises CatalogError, and what the change raises; then the file is as it was, or not there.
    """
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="opm-dry-run-") as scratch:
            copy = Path(scratch) / path.name
            if path.exists():
                shutil.copyfile(path, copy)
            return change_database(copy, change, must_exist=must_exist, durable=False)
    with replace_database(path, must_exist=must_exist, durable=durable) as database:
        before = read_state(database)
        outcome = change(database)
        return ChangeResult(diff_states(before, read_state(database)), outcome)


def adding(
    tool: ContainerTool, images: Sequence[str], options: AddOptions | None = None, *, progress: Progress = SILENT
) -> Change:
    """Add bundle images; raises CatalogError at once for a mode that there isn't."""
    options = options or AddOptions()
    UpdateMode.parse(options.mode)
    return partial(_add, tool, images, options, progress)


def removing(packages: Sequence[str], *, permissive: bool = False) -> Change:
    """Remove packages."""
    return lambda database: Outcome(failures=remove_packages(database, packages, permissive=permissive).failures)


def pruning(keep: Sequence[str]) -> Change:
    """Remove all packages but these."""
    return lambda database: Outcome(failures=prune_packages(database, keep).failures)


def pruning_stranded(database: IndexDatabase) -> Outcome:
    """Remove bundles that no channel leads to."""
    prune_stranded(database)
    return Outcome()


def deprecating(images: Sequence[str], *, permissive: bool = False, allow_package_removal: bool = False) -> Change:
    """Deprecate bundles by their images."""
    return lambda database: Outcome(
        failures=deprecate_bundles(
            database, images, permissive=permissive, allow_package_removal=allow_package_removal
        ).failures
    )


def initializing(directory: Path, *, permissive: bool = False) -> Change:
    """Store the packages and bundles below a directory of manifests."""
    return lambda database: Outcome(failures=initialize(database, directory, permissive=permissive).failures)


def in_turn(changes: Sequence[Change]) -> Change:
    """Make several changes, one after the other, as one."""

    def change(database: IndexDatabase) -> Outcome:
        outcomes = [one(database) for one in changes]
        return Outcome(
            tuple(warning for outcome in outcomes for warning in outcome.warnings),
            tuple(image for outcome in outcomes for image in outcome.skipped),
            tuple(failure for outcome in outcomes for failure in outcome.failures),
        )

    return change


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


def _same_image(tool: ContainerTool, present: str, image: str) -> bool:
    """Whether two names are of one image: equal, or of equal digest now; "" is none."""
    if not present or not image or present == image:
        return bool(present) and present == image
    try:
        return tool.digest(parse_image_reference(present)) == tool.digest(parse_image_reference(image))
    except NotFound:  # the image that the index names is gone, so it can't be told to be the same
        return False
