"""Build a new index from an old one: extract its content, change it, build an image, and publish it."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.source import path_or_image
from opmkit.core.environment import source_date_epoch
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.files import disk_errors, is_below, write_files, write_trees
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.reference import SCRATCH, parse_image_reference
from opmkit.imagetools.tools.engine import EngineTool
from opmkit.imagetools.uncompressed import compress_layers
from opmkit.index.change import change_catalog, change_database
from opmkit.index.errors import CatalogError, IndexMoved
from opmkit.index.hint_terms import IndexOperation, IndexSetting
from opmkit.index.image.base import BASE_NAME, MADE_FROM, Base, extract_with_base, load_base
from opmkit.index.image.content import (
    CONTEXT_CATALOG,
    CatalogContent,
    DatabaseContent,
    copy_content,
    new_content,
)
from opmkit.index.image.dockerfile import DEFAULT_BINARY_IMAGE
from opmkit.index.image.plan import CONTEXT_DOCKERFILE, BuiltIndex
from opmkit.index.image.publish import Publisher
from opmkit.index.image.source import IndexSource
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.core.progress import Progress
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.imagetools.tools.tool import ContainerTool, InspectedImage
    from opmkit.index.change import AppliedChange, Change
    from opmkit.index.image.content import IndexContent
    from opmkit.index.image.plan import IndexPlan


_NO_ENGINE = IndexSetting.BUILD_TOOL.with_value("none")


def build_index(
    pull: ContainerTool,
    build: RegistryTool | EngineTool,
    plan: IndexPlan,
    change: Change,
    *,
    progress: Progress = NO_PROGRESS,
) -> BuiltIndex:
    """Change an index, and build a new index from the result, completely or not at all.

    The tool ``pull`` reads the old index if an engine builds the new one. The tool ``none`` reads it itself, since it
    needs the layers. If a tag has moved and the plan is to rebase, the change is made again.

    Raises:
        IndexMoved: Another writer has moved a tag; it may have done so after this run had moved it.
        CatalogError, BundleError, ImageToolsError: In all other cases neither store, registry nor build context has
            changed.
    """
    references = [parse_image_reference(tag) for tag in plan.tags]
    source = IndexSource.find(lambda: pull, plan.from_index, build_context=True) if plan.from_index else None
    path = source.path if source else None
    if path is not None and not plan.tags and plan.context is None:
        return BuiltIndex((), "", _change_in_place(path, plan, change))
    if plan.context is not None or plan.dry_run:
        return BuiltIndex((), "", _change_only(source, plan, change))
    names = tuple(map(str, references))
    if isinstance(build, EngineTool):
        engine = EngineBuild(build, references, plan.binary_image)
        digest, result = _build_in_engine(engine, source, plan, change, progress)
        return BuiltIndex(names, digest, result)
    if path is not None and plan.on_conflict is OnConflict.REBASE:
        raise CatalogError(
            f"{path}: an index on disk cannot be rebased on the image that a moved tag refers to",
            hint=Hint.any_of(
                Hint("omit {}", IndexSetting.ON_CONFLICT.with_value("rebase")), "start from an index image"
            ),
        )

    def build_from(
        parent: ImageReference | None, directory: Path, check_tags: Callable[[], object]
    ) -> tuple[Image | ImageIndex, AppliedChange]:
        base, old = prepare_index(build, plan, path or parent, directory)
        check_tags()
        new, result = apply_change(plan, change, old, directory)
        spec = new.build_spec(source_date_epoch())
        return build_image(base, spec, directory, image_format=build.image_format), result

    publisher = Publisher(build, references, plan.push, plan.on_conflict, plan.settle)
    image, result = publisher.publish(source.image if source else None, build_from, progress)
    return BuiltIndex(names, image.digest, result)


def apply_change(
    plan: IndexPlan, change: Change, content: IndexContent, directory: Path
) -> tuple[IndexContent, AppliedChange]:
    """Change the content of the old index; return that of the new one and the result of the change.

    A database that becomes a file-based catalog is written to ``directory``.
    """
    if plan.to_catalog and isinstance(content, DatabaseContent):
        if not change.supports_databases:
            content = content.to_catalog(directory / "catalog", plan.level)
            return content, content.change(change)
        result = content.change(change)
        return content.to_catalog(directory / "catalog", plan.level), result
    return content, content.change(change)


def build_image(
    base: Base, spec: BuildSpec, directory: Path, *, image_format: ImageFormat = ImageFormat.OCI
) -> Image | ImageIndex:
    """Build an index image on ``base``, without storing or pushing it; ``directory`` receives the layer's file.

    Layers of the base are read only if an archive or engine stores them uncompressed. The image has the format
    ``image_format`` whatever that of the base is, so its digest does not depend on where it is pushed. It is annotated
    with its parent, unless its digest would be equal to the parent's without the annotation.
    """
    packed = compress_layers(base.image, directory)  # registries identify layers by their compressed digests
    spec = structs.replace(spec, annotations=base.annotations)
    image = spec.build_on(packed.in_format(image_format.manifest_type), directory)
    if not base.parent:
        return image
    unchanged = image.with_annotations({MADE_FROM: base.parent_of_previous}) if base.parent_of_previous else image
    return unchanged if unchanged.digest == base.parent else image.with_annotations({MADE_FROM: base.parent})


def _build_in_engine(
    build: EngineBuild, source: IndexSource | None, plan: IndexPlan, change: Change, progress: Progress
) -> tuple[str, AppliedChange]:
    name = build.engine.name
    if plan.platforms:
        problem = f"{name}: selecting platforms is unsupported: it builds for the platform of its copy of the base"
        raise CatalogError(
            problem, hint=Hint.any_of(Hint("omit {}", ImageSetting.PLATFORM), Hint("use {}", _NO_ENGINE))
        )
    if plan.on_conflict is OnConflict.REBASE:
        problem = f"{name}: rebasing is unsupported: it moves a tag without checking it"
        raise CatalogError(
            problem,
            hint=Hint.any_of(
                Hint("use {}", _NO_ENGINE),
                Hint("use {}, which checks the tag right before the push", IndexSetting.ON_CONFLICT.with_value("fail")),
            ),
        )
    guarded = plan.push and plan.on_conflict is OnConflict.FAIL
    before = build.published() if guarded else {}
    with ScratchDirectory("opm-index-") as scratch:
        old, parent = _extract(source, plan, Path(scratch))
        content, result = apply_change(plan, change, old, Path(scratch))
        build.run(content, parent, progress)
    return build.push(before, progress) if plan.push else "", result


def _extract(
    source: IndexSource | None, plan: IndexPlan, directory: Path
) -> tuple[IndexContent, InspectedImage | None]:
    """Return a copy of the old index, or a new one, in ``directory``, and the image of the old one, if any."""
    if source is None:
        return new_content(directory, is_catalog=plan.to_catalog), None
    if source.image is not None:
        source = replace(source, location=plan.verified(source.image))
    return source.extract(directory)


def _change_in_place(path: Path, plan: IndexPlan, change: Change) -> AppliedChange:
    if path.is_dir():
        return change_catalog(path, change, dry_run=plan.dry_run)
    if plan.to_catalog:
        raise CatalogError(
            f"{path}: a database cannot be converted to a file-based catalog in place",
            hint=Hint.any_of(
                Hint("pass the image to build with {}", IndexSetting.TAG),
                Hint("convert the database to a directory with {}", IndexOperation.MIGRATE_INDEX),
            ),
        )
    return change_database(path, change, must_exist=True, dry_run=plan.dry_run)


def _change_only(source: IndexSource | None, plan: IndexPlan, change: Change) -> AppliedChange:
    """Change a copy of the index, and unless this is a dry run write it and a Dockerfile to the build context."""
    with ScratchDirectory("opm-index-") as scratch:
        directory = Path(scratch)
        old, _ = _extract(source, plan, directory)
        content, result = apply_change(plan, change, old, directory)
        if plan.context is not None and not plan.dry_run:
            _write_context(plan, plan.context, content)
        return result


def _write_context(plan: IndexPlan, context: Path, content: IndexContent) -> None:
    """Write the index to the build context, and the Dockerfile to where the plan names it, which can be anywhere."""
    if isinstance(content, CatalogContent):
        from opmkit.index.fbc.write import require_empty

        require_empty(context / CONTEXT_CATALOG)
    path = context / (plan.dockerfile or CONTEXT_DOCKERFILE)
    files, dockerfile = content.build_context(plan.binary_image)
    if is_below(path, context.absolute()):
        write_files(context, {**files, str(path.absolute()): dockerfile})
    elif (path.is_file() and not path.is_symlink()) or not os.path.lexists(path):
        write_trees({context: files, path.parent: {path.name: dockerfile}})
    else:  # /dev/stdout, a pipe or a link
        write_files(context, files)
        with disk_errors(path):
            path.write_bytes(dockerfile)


def prepare_index(
    tool: RegistryTool, plan: IndexPlan, start: ImageReference | Path | None, directory: Path
) -> tuple[Base, IndexContent]:
    """Return the base of the new image, and the content of the old index, or of a new one, in ``directory``.

    Raises:
        CatalogError: ``start`` is not an index.
        ImageToolsError: The base or the old index cannot be read.
    """
    if start is None:
        return _load_binary_image(tool, plan), new_content(directory, is_catalog=plan.to_catalog)
    if isinstance(start, Path):
        return _load_binary_image(tool, plan), copy_content(start, directory)
    with path_or_image(plan.from_index or str(start)):
        image = plan.verified(start)
        old, content = extract_with_base(tool, image, directory, () if plan.binary_image else plan.platforms)
    if not plan.binary_image:
        return old, content
    return _load_binary_image(tool, plan).with_lineage(old), content


def _load_binary_image(tool: RegistryTool, plan: IndexPlan) -> Base:
    """Return the base that is to be used, by default the one of Go opm; raise ImageToolsError."""
    if plan.binary_image:
        return load_base(tool, plan.binary_image, plan.platforms)
    with _explain_base(_DEFAULT_BASE):
        return load_base(tool, DEFAULT_BINARY_IMAGE, plan.platforms)


@contextmanager
def _explain_base(origin: str) -> Iterator[None]:
    """Mention in errors the origin of a base image that the user has not named, and that another one can be chosen."""
    try:
        yield
    except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
        hint = Hint("choose another base image, or scratch, with {}", IndexSetting.BINARY_IMAGE)
        raise type(error)(f"{origin} {error.message}", hint=Hint.any_of(error.hint, hint)) from error


_log = logging.getLogger(__name__)
_DEFAULT_BASE = "default base image"
_RECORDED_BASE = "base image of the old index"


class EngineBuild(Struct, frozen=True):
    """The build of an index image with the names ``references`` in a container engine.

    The base is ``binary_image``, or else the base recorded in the old index image, or else the default. It is not the
    old image itself, which would grow with each update, since an engine cannot remove layers.
    """

    engine: EngineTool
    references: Sequence[ImageReference]
    binary_image: str | None = None

    def run(self, content: IndexContent, old: InspectedImage | None, progress: Progress) -> None:
        """Build an image with the content; ``old`` is the index image that it was extracted from."""
        spec, base = content.build_spec(source_date_epoch()), self.base(old)
        origin = _RECORDED_BASE if _recorded_base(old) else _DEFAULT_BASE
        with nullcontext() if self.binary_image else _explain_base(origin):
            self.engine.build(spec, base, self.references, progress=progress)

    def published(self) -> dict[ImageReference, str]:
        """Return the digest of each tag in its registry, or "" if it does not exist.

        A tag is omitted, with a warning, if its registry cannot be asked.
        """
        digests = {}
        for reference in self.references:
            try:
                digests[reference] = self.engine.registry_digest(reference)
            except (ImageToolsError, LimitExceeded, DiskError) as error:
                _log.warning("%s: the tag will be moved without checking it", error.message)
        return digests

    def push(self, before: Mapping[ImageReference, str], progress: Progress) -> str:
        """Push the image from the engine, and return its digest in the registry.

        The tags are compared with ``before`` first. Engines move tags unconditionally, so a tag that another writer
        moves after the comparison is overwritten.

        Raises:
            IndexMoved: A tag does not have the digest in ``before``.
        """
        for reference, digest in before.items():
            current = self.engine.registry_digest(reference)
            if current != digest:
                raise IndexMoved(reference, f"another writer moved the tag to {current or 'nothing'}")
        return self.engine.push(self.references, progress=progress)

    def base(self, old: InspectedImage | None) -> ImageReference | None:
        """Return the base of the image, None for an empty one; ``old`` is the old index image."""
        name = self.binary_image or _recorded_base(old) or DEFAULT_BINARY_IMAGE
        return None if name == SCRATCH else parse_image_reference(name)


def _recorded_base(old: InspectedImage | None) -> str:
    """Return the name of the base that the old index image records, "" if there is none."""
    return old.annotations.get(BASE_NAME, "") if old else ""
