"""A new index image from an old one: take the database out, change it, bake it, and put the result where it belongs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.progress import SILENT, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.tools.engine import EngineTool
from opmkit.index.change import change_database
from opmkit.index.engines import EngineBuild
from opmkit.index.errors import CatalogError
from opmkit.index.files import put_files
from opmkit.index.image import DEFAULT_BINARY_IMAGE, Base, bake, dockerfile, extract_database, named_base, read_database
from opmkit.index.modes import OnConflict
from opmkit.index.publish import SETTLE, Publisher

if TYPE_CHECKING:
    from opmkit.imagetools.image import Image, MultiImage
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.change import Change, ChangeResult

DEFAULT_TAG = "operator-registry-index:latest"
CONTEXT_DATABASE = "database/index.db"
CONTEXT_DOCKERFILE = "index.Dockerfile"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Where a new index starts, what it is layered on, and where it goes.

    ``platforms`` are those of the base that the new image is to have, all if none are named. ``on_conflict`` is what to
    do where a tag has moved during the run, ``settle`` for how many seconds a tag moved in place has to stand.
    ``context`` is the directory that receives the database and a Dockerfile (called ``dockerfile``) where no image is
    to be built. A ``dry_run`` builds and writes nothing.
    """

    tags: tuple[str, ...] = (DEFAULT_TAG,)
    from_index: str | None = None
    binary_image: str | None = None
    platforms: tuple[Platform, ...] = ()
    push: bool = False
    on_conflict: OnConflict = OnConflict.FAIL
    settle: float = SETTLE
    context: Path | None = None
    dockerfile: str = CONTEXT_DOCKERFILE
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The names and the digest of a new index image, empty where none was built, and what became of the index."""

    references: tuple[str, ...]
    digest: str
    result: ChangeResult


def build_index(
    pull: ContainerTool,
    build: RegistryTool | EngineTool,
    plan: IndexPlan,
    change: Change,
    *,
    progress: Progress = SILENT,
) -> BuiltIndex:
    """Make a change to an index, and a new index of the outcome, all or nothing.

    An engine that is to ``build`` is given the database of the index to start from, which comes by the tool ``pull``.
    The tool none reads that index itself, for it needs its layers.

    The change is made again where the plan is to rebase and a tag has moved. Raises CatalogError, BundleError and
    ImageToolsError; then neither store, registry nor build context have changed. Only IndexMoved may say that a tag was
    moved, and then moved away again by another writer.
    """
    references = [parse_image_reference(tag) for tag in plan.tags]
    start = parse_image_reference(plan.from_index) if plan.from_index else None
    if plan.context is not None or plan.dry_run:
        return BuiltIndex((), "", _change_only(pull, plan, start, change))
    names = tuple(map(str, references))
    if isinstance(build, EngineTool):
        digest, result = _build_in_engine(
            EngineBuild(pull, build, references, plan.binary_image), plan, start, change, progress
        )
        return BuiltIndex(names, digest, result)

    def make(start: ImageReference | None, directory: Path) -> tuple[Image | MultiImage, ChangeResult]:
        database = directory / "index.db"
        base = _find_base(build, plan, start, database)
        result = change_database(database, change, durable=False)
        return bake(base, database, directory, form=build.form, created=source_date_epoch()), result

    publisher = Publisher(build, references, plan.push, plan.on_conflict, plan.settle)
    image, result = publisher.publish(start, make, progress)
    return BuiltIndex(names, image.digest, result)


def _build_in_engine(
    build: EngineBuild, plan: IndexPlan, start: ImageReference | None, change: Change, progress: Progress
) -> tuple[str, ChangeResult]:
    name = build.engine.name
    if plan.platforms:
        problem = (
            f"{name} builds an index for the platform of its base in {name} alone, so --platform doesn't go with it"
        )
        raise CatalogError(problem, advice="leave it out, or build with the tool none")
    if plan.on_conflict is OnConflict.REBASE:
        problem = f"{name} moves a tag whatever it names, so --on-conflict rebase doesn't go with it"
        raise CatalogError(problem, advice="build with the tool none; or use fail, which asks right before the push")
    guarded = plan.push and plan.on_conflict is OnConflict.FAIL
    before = build.published() if guarded else {}
    result = build.run(start, change, progress)
    return build.push(before, progress) if plan.push else "", result


def _change_only(pull: ContainerTool, plan: IndexPlan, start: ImageReference | None, change: Change) -> ChangeResult:
    """Make the change, and put the database and a Dockerfile into the build context unless this is a dry run."""
    with tempfile.TemporaryDirectory(prefix="opm-index-") as scratch:
        database = Path(scratch) / "index.db"
        if start is not None:
            read_database(pull, start, database)
        result = change_database(database, change, durable=False)
        if plan.context is not None and not plan.dry_run:
            text = dockerfile(plan.binary_image or DEFAULT_BINARY_IMAGE, CONTEXT_DATABASE)
            put_files(plan.context, {CONTEXT_DATABASE: database, plan.dockerfile: text.encode()})
        return result


def _find_base(tool: RegistryTool, plan: IndexPlan, start: ImageReference | None, database: Path) -> Base:
    """Take the database out of the index to start from, and find what the new image is layered on."""
    if start is None:
        return named_base(tool, plan.binary_image or DEFAULT_BINARY_IMAGE, plan.platforms)
    if not plan.binary_image:
        return extract_database(tool, start, database, plan.platforms)
    old = extract_database(tool, start, database)
    return named_base(tool, plan.binary_image, plan.platforms).following(old)
