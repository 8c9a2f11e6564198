"""A new index image from an old one: take the database out, change it, bake it, and put the result where it belongs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.progress import SILENT, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.change import change_database
from opmkit.index.files import put_files
from opmkit.index.image import DEFAULT_BINARY_IMAGE, Base, bake, dockerfile, extract_database, named_base

if TYPE_CHECKING:
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.index.change import Change, ChangeResult

DEFAULT_TAG = "operator-registry-index:latest"
CONTEXT_DATABASE = "database/index.db"
CONTEXT_DOCKERFILE = "index.Dockerfile"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Where a new index starts, what it is layered on, and where it goes.

    ``context`` is the directory that receives the database and a Dockerfile (called ``dockerfile``) where no image is
    to be built. A ``dry_run`` builds and writes nothing.
    """

    tags: tuple[str, ...] = (DEFAULT_TAG,)
    from_index: str | None = None
    binary_image: str | None = None
    push: bool = False
    context: Path | None = None
    dockerfile: str = CONTEXT_DOCKERFILE
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The names and the digest of a new index image, empty where none was built, and what became of the index."""

    references: tuple[str, ...]
    digest: str
    result: ChangeResult


def build_index(tool: ContainerTool, plan: IndexPlan, change: Change, *, progress: Progress = SILENT) -> BuiltIndex:
    """Make a change to an index, and a new index of the outcome, all or nothing.

    Raises CatalogError, BundleError and ImageToolsError; then neither store, registry nor build context have changed.
    """
    targets = [parse_image_reference(tag) for tag in plan.tags]
    with tempfile.TemporaryDirectory(prefix="opm-index-") as scratch:
        directory = Path(scratch)
        database = directory / "index.db"
        base = _find_base(tool, plan, database)
        result = change_database(database, change)
        if plan.dry_run:
            return BuiltIndex((), "", result)
        if plan.context is not None:
            _write_context(plan.context, plan, database)
            return BuiltIndex((), "", result)
        image = bake(base, database, directory, created=source_date_epoch())
        save = tool.push if plan.push else tool.save
        if len(targets) > 1:  # the content is everywhere before the first tag moves
            for target in targets:
                save(image, replace(target, tag=None, digest=image.digest), progress=progress)
        for target in targets:
            save(image, target, progress=progress)
        return BuiltIndex(tuple(map(str, targets)), image.digest, result)


def _find_base(tool: ContainerTool, plan: IndexPlan, database: Path) -> Base:
    """Take the database out of the index to start from, and find what the new image is layered on."""
    under = extract_database(tool, parse_image_reference(plan.from_index), database) if plan.from_index else None
    if under is not None and not plan.binary_image:
        return under
    if plan.context is not None or plan.dry_run:
        return Base.scratch()
    return named_base(tool, plan.binary_image or DEFAULT_BINARY_IMAGE)


def _write_context(context: Path, plan: IndexPlan, database: Path) -> None:
    """Put the database and the Dockerfile into a build context."""
    text = dockerfile(plan.binary_image or DEFAULT_BINARY_IMAGE, CONTEXT_DATABASE)
    put_files(context, {CONTEXT_DATABASE: database, plan.dockerfile: text.encode()})
