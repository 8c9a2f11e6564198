"""A new index from an old one: take the database out, change it, bake it, and put the result where it belongs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.pull import pull_bundles
from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.progress import SILENT, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.add import UpdateMode, add_bundles
from opmkit.index.database import replace_database
from opmkit.index.files import put_files
from opmkit.index.image import DEFAULT_BINARY_IMAGE, Base, bake, dockerfile, extract_database, named_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.errors import AdvisedError
    from opmkit.imagetools.tools import ContainerTool

DEFAULT_TAG = "operator-registry-index:latest"
CONTEXT_DATABASE = "database/index.db"
CONTEXT_DOCKERFILE = "index.Dockerfile"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Where a new index starts, what it is layered on, and where it goes.

    ``context`` is the directory that receives the database and a Dockerfile (called ``dockerfile``) where no image is
    to be built.
    """

    tag: str = DEFAULT_TAG
    from_index: str | None = None
    binary_image: str | None = None
    push: bool = False
    context: Path | None = None
    dockerfile: str = CONTEXT_DOCKERFILE


@dataclass(frozen=True, slots=True)
class Addition:
    """The names of the bundles added, remarks on them, and what a permissive add passed over."""

    added: tuple[str, ...]
    warnings: tuple[str, ...]
    failures: tuple[AdvisedError, ...]


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The name and digest of a new index image, empty where none was built, and what was added to it."""

    reference: str
    digest: str
    addition: Addition


def add_to_index(
    tool: ContainerTool,
    bundles: Sequence[str],
    plan: IndexPlan,
    *,
    mode: str = UpdateMode.REPLACES,
    permissive: bool = False,
    progress: Progress = SILENT,
) -> BuiltIndex:
    """Add bundle images to an index and make a new index of it, all or nothing.

    ``bundles`` are references as they are to stand in the index. Raises CatalogError, BundleError and ImageToolsError;
    then neither store, registry nor build context have changed.
    """
    UpdateMode.parse(mode)
    target = parse_image_reference(plan.tag)
    with tempfile.TemporaryDirectory(prefix="opm-index-") as scratch:
        directory = Path(scratch)
        database = directory / "index.db"
        base = _find_base(tool, plan, database)
        addition = add_to_database(tool, bundles, database, mode=mode, permissive=permissive, progress=progress)
        if plan.context is not None:
            _write_context(plan.context, plan, database)
            return BuiltIndex("", "", addition)
        image = bake(base, database, directory, created=source_date_epoch())
        save = tool.push if plan.push else tool.save
        return BuiltIndex(str(target), save(image, target, progress=progress).digest, addition)


def add_to_database(
    tool: ContainerTool,
    bundles: Sequence[str],
    database: Path,
    *,
    mode: str = UpdateMode.REPLACES,
    permissive: bool = False,
    progress: Progress = SILENT,
) -> Addition:
    """Add bundle images to the index database ``database``, which is made where there is none, all or nothing.

    A ``permissive`` add reports what went wrong instead of raising it: nothing is added if an image can't be read.
    """
    UpdateMode.parse(mode)
    warnings: list[str] = []
    with replace_database(database) as opened:
        try:
            pulled = pull_bundles(tool, bundles, warn=warnings.append, progress=progress)
            result = add_bundles(opened, pulled, mode, permissive=permissive)
        except (BundleError, ImageToolsError) as error:
            if not permissive:
                raise
            return Addition((), tuple(warnings), (error,))
    return Addition(tuple(bundle.name for bundle in result.added), tuple(warnings), result.failures)


def _find_base(tool: ContainerTool, plan: IndexPlan, database: Path) -> Base:
    """Take the database out of the index to start from, and find what the new image is layered on."""
    under = extract_database(tool, parse_image_reference(plan.from_index), database) if plan.from_index else None
    if under is not None and not plan.binary_image:
        return under
    if plan.context is not None:
        return Base.scratch()
    return named_base(tool, plan.binary_image or DEFAULT_BINARY_IMAGE)


def _write_context(context: Path, plan: IndexPlan, database: Path) -> None:
    """Put the database and the Dockerfile into a build context."""
    text = dockerfile(plan.binary_image or DEFAULT_BINARY_IMAGE, CONTEXT_DATABASE)
    put_files(context, {CONTEXT_DATABASE: database, plan.dockerfile: text.encode()})
