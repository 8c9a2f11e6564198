"""A new index from an old one: take out what the image holds, change it, bake it, and put it where it belongs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.source import path_or_image
from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.tools.engine import EngineTool
from opmkit.index.errors import CatalogError
from opmkit.index.files import put_files
from opmkit.index.image.base import DEFAULT_BINARY_IMAGE, Base, bake, named_base
from opmkit.index.image.content import CONTEXT_CATALOG, CatalogContent, DatabaseContent
from opmkit.index.image.engines import EngineBuild
from opmkit.index.image.extract import extract_index, find_index, new_content, open_content
from opmkit.index.image.publish import SETTLE, Publisher
from opmkit.index.modes import OnConflict
from opmkit.index.operations.change import change_catalog, change_database

if TYPE_CHECKING:
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.image.content import Content
    from opmkit.index.operations.change import Change, ChangeResult

DEFAULT_TAG = "operator-registry-index:latest"
CONTEXT_DOCKERFILE = "index.Dockerfile"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Where a new index starts, what it is layered on, and where it goes.

    ``from_index`` is an index image, or a directory or file on disk, which is changed itself if there are no ``tags``.
    With ``to_catalog`` the new index is a file-based catalog whatever the old one is, its bundles migrated to
    ``level``, if there is one; without it is of the old one's kind.

    ``platforms`` are those of the base that the new image is to have, all if none are named. ``on_conflict`` is what to
    do where a tag has moved during the run, ``settle`` for how many seconds a tag moved in place has to stand.
    ``context`` is the directory that receives the index and a Dockerfile (called ``dockerfile``) where no image is to
    be built. A ``dry_run`` builds and writes nothing.
    """

    tags: tuple[str, ...] = (DEFAULT_TAG,)
    from_index: str | None = None
    to_catalog: bool = False
    level: MigrationLevel | None = None
    binary_image: str | None = None
    platforms: tuple[Platform, ...] = ()
    push: bool = False
    on_conflict: OnConflict = OnConflict.FAIL
    settle: float = SETTLE
    context: Path | None = None
    dockerfile: str = CONTEXT_DOCKERFILE
    dry_run: bool = False

    def changed(self, content: Content, change: Change, directory: Path) -> tuple[Content, ChangeResult]:
        """Make a change to the old index; what the new one holds, in the directory, and what the change came to."""
        if self.to_catalog and isinstance(content, DatabaseContent):
            if change.database is None:
                content = content.converted(directory / "catalog", self.level)
                return content, content.change(change)
            result = content.change(change)
            return content.converted(directory / "catalog", self.level), result
        return content, content.change(change)


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
    progress: Progress = NO_PROGRESS,
) -> BuiltIndex:
    """Make a change to an index, and a new index of the outcome, all or nothing.

    An engine that is to ``build`` is given the index to start from as it comes by the tool ``pull``. The tool none
    reads that index itself, for it needs its layers.

    The change is made again where the plan is to rebase and a tag has moved. Raises CatalogError, BundleError and
    ImageToolsError; then neither store, registry nor build context have changed. Only IndexMoved may say that a tag was
    moved, and then moved away again by another writer.
    """
    references = [parse_image_reference(tag) for tag in plan.tags]
    start = find_index(plan.from_index) if plan.from_index else None
    if isinstance(start, Path) and not plan.tags and plan.context is None:
        return BuiltIndex((), "", _change_in_place(start, plan, change))
    if plan.context is not None or plan.dry_run:
        return BuiltIndex((), "", _change_only(pull, plan, start, change))
    names = tuple(map(str, references))
    if isinstance(build, EngineTool):
        engine = EngineBuild(build, references, plan.binary_image)
        digest, result = _build_in_engine(pull, engine, plan, start, change, progress)
        return BuiltIndex(names, digest, result)
    if isinstance(start, Path) and plan.on_conflict is OnConflict.REBASE:
        problem = f"an index made of {start} can't start again from what a tag names by then"
        raise CatalogError(problem, advice="leave out --on-conflict rebase, or start from an index image")

    def make(image: ImageReference | None, directory: Path) -> tuple[Image | ImageIndex, ChangeResult]:
        base, old = _find_base(build, plan, start if isinstance(start, Path) else image, directory)
        new, result = plan.changed(old, change, directory)
        return bake(base, new.build_spec(source_date_epoch()), directory, form=build.form), result

    publisher = Publisher(build, references, plan.push, plan.on_conflict, plan.settle)
    image, result = publisher.publish(None if isinstance(start, Path) else start, make, progress)
    return BuiltIndex(names, image.digest, result)


def _build_in_engine(
    pull: ContainerTool,
    build: EngineBuild,
    plan: IndexPlan,
    start: ImageReference | Path | None,
    change: Change,
    progress: Progress,
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
    with ScratchDirectory("opm-index-") as scratch:
        with path_or_image(plan.from_index or ":"):
            old, content = open_content(pull, start, Path(scratch), to_catalog=plan.to_catalog)
        content, result = plan.changed(content, change, Path(scratch))
        build.run(content, old, progress)
    return build.push(before, progress) if plan.push else "", result


def _change_in_place(path: Path, plan: IndexPlan, change: Change) -> ChangeResult:
    """Change the catalog in a directory, or the database in a file."""
    if path.is_dir():
        return change_catalog(path, change, dry_run=plan.dry_run)
    if plan.to_catalog:
        raise CatalogError(
            f"{path} is a database: it can't become a catalog in its place",
            advice="name the image to make with --tag; 'opm migrate' converts a database to a directory",
        )
    return change_database(path, change.of_database, must_exist=True, dry_run=plan.dry_run)


def _change_only(
    pull: ContainerTool, plan: IndexPlan, start: ImageReference | Path | None, change: Change
) -> ChangeResult:
    """Make the change, and put the index and a Dockerfile into the build context unless this is a dry run."""
    with ScratchDirectory("opm-index-") as scratch:
        directory = Path(scratch)
        with path_or_image(plan.from_index or ":"):
            _, content = open_content(pull, start, directory, to_catalog=plan.to_catalog)
        content, result = plan.changed(content, change, directory)
        if plan.context is not None and not plan.dry_run:
            if isinstance(content, CatalogContent):
                from opmkit.index.fbc.directory import require_empty

                require_empty(plan.context / CONTEXT_CATALOG)
            put_files(plan.context, content.context(plan.binary_image, plan.dockerfile))
        return result


def _find_base(
    tool: RegistryTool, plan: IndexPlan, start: ImageReference | Path | None, directory: Path
) -> tuple[Base, Content]:
    """Take out what the index to start from holds, and find what the new image is layered on."""
    binary_image = plan.binary_image or DEFAULT_BINARY_IMAGE
    if start is None or isinstance(start, Path):
        return named_base(tool, binary_image, plan.platforms), new_content(start, directory, to_catalog=plan.to_catalog)
    with path_or_image(plan.from_index or str(start)):
        old, content = extract_index(tool, start, directory, () if plan.binary_image else plan.platforms)
    if not plan.binary_image:
        return old, content
    return named_base(tool, binary_image, plan.platforms).following(old), content
