"""Render the templates of a plan: resolve and read all their images, then write all catalogs, or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.errors import OpmkitError
from opmkit.core.files import write_trees
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.csv_metadata import migrate
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.load import parse_blobs, read_file
from opmkit.index.fbc.write import sort_blobs, to_json, to_yaml
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.templates.ci_config import CI_FILE, is_safe_name
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import list_images, render_template
from opmkit.index.templates.repository.images import (
    BundleReader,
    ImageLock,
    ImageOptions,
    LockMode,
    ResolvedImages,
    distinct,
    resolve_images,
    update_lock,
)
from opmkit.index.templates.repository.outputs import (
    CatalogFiles,
    FileStatus,
    MovedTag,
    RenderedCatalog,
    RenderedTemplates,
    other_formats,
)
from opmkit.index.templates.repository.plan import FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blobs, BundleBlob, SourceLocation
    from opmkit.index.fbc.csv_metadata import MigrationLevel
    from opmkit.index.image.source import GetRegistryTool
    from opmkit.index.templates.renderer import ListedImage
    from opmkit.index.templates.repository.plan import CatalogTarget, Plan, PlanOptions, TemplateJob

MAX_USES = 3
"""Further locations of an image, or images, that an error lists."""
MAX_HINTS = 2
"""Hints of an error that combines several."""
_ENCODERS = {FileFormat.JSON: to_json, FileFormat.YAML: to_yaml}


class RunOptions(Struct, frozen=True):
    """Options of rendering a plan.

    Attributes:
        plan: The options that the plan was made with.
        images: Options of reading images.
        lock: The lock file, None for none.
        validate: Whether to validate the catalogs.
        check: Whether to compare the files instead of writing them.
    """

    plan: PlanOptions
    images: ImageOptions
    lock: Path | None = None
    validate: bool = True
    check: bool = False


def render_plan(
    tool: GetRegistryTool, plan: Plan, options: RunOptions, *, progress: Progress = NO_PROGRESS
) -> RenderedTemplates:
    """Render the templates of a plan, and write the lock file and their catalogs, or nothing.

    Raises:
        CatalogError: Templates are invalid or images can't be read; it lists all errors, with template and line.
        DiskError: A file can't be read or written.
    """
    lock = ImageLock.read(options.lock) if options.lock else ImageLock()
    with CatalogFiles(options.plan.output_dir, check=options.check) as files:
        run = _Run(plan, options, files, list(plan.errors), list(plan.warnings))
        run.load()
        images = list(distinct((listed.image for listed in images) for images in run.images.values()))
        run.errors += [
            CatalogError(f"{image}: not an image of the templates", hint=f"use one of {', '.join(images[:MAX_USES])}")
            for image in sorted(options.images.update.difference(images))
        ]
        resolved = resolve_images(tool, images, lock, options.images, progress)
        reader = BundleReader(tool, resolved, options.images)
        readable = [image for image in images if image not in resolved.errors]
        run.report_images(resolved.errors | reader.prefetch(readable, progress))
        catalogs = run.render(reader, progress)
        if run.errors:
            raise _combine(run.errors)
        status = _write(lock, resolved, options, files.staged())
    moved = tuple(
        MovedTag(image, lock.images[image].digest, locked.digest)
        for image, locked in sorted(resolved.locked.items())
        if image in lock.images and lock.images[image].digest != locked.digest
    )
    return RenderedTemplates(tuple(catalogs), options.lock, status, len(images), moved, tuple(run.warnings))


def _combine(errors: Sequence[OpmkitError]) -> CatalogError:
    """Return an error with the lines of all errors, and the first of their hints."""
    if len(errors) == 1 and isinstance(errors[0], CatalogError):
        return errors[0]
    first, *others = (line for error in errors for line in error.lines)
    hints = list(dict.fromkeys(error.hint for error in errors if error.hint))
    return CatalogError(first, details=others, hint=Hint.all_of(*hints[:MAX_HINTS]))


def _write(
    lock: ImageLock,
    resolved: ResolvedImages,
    options: RunOptions,
    catalogs: Mapping[Path, Mapping[str, bytes | Path]],
) -> FileStatus | None:
    """Write the catalogs and the lock file, and return the status of the latter."""
    changes = {image: locked for image, locked in resolved.locked.items() if lock.images.get(image) != locked}
    if options.lock is not None and changes and not options.check and options.images.mode is not LockMode.FROZEN:
        return FileStatus.WRITTEN if update_lock(options.lock, changes, catalogs) else FileStatus.UNCHANGED
    write_trees(catalogs)
    if options.lock is None:
        return None
    return FileStatus.STALE if changes else FileStatus.UNCHANGED


class _LocatedReader(Struct, frozen=True):
    """A renderer of bundles that sets their locations to those in a template."""

    reader: BundleReader
    locations: Mapping[str, SourceLocation]

    def __call__(self, images: Sequence[str], /) -> dict[str, BundleBlob]:
        rendered = self.reader(images)
        return {image: replace(blob, location=self.locations[image]) for image, blob in rendered.items()}


class _Run(Struct):
    plan: Plan
    options: RunOptions
    files: CatalogFiles
    errors: list[OpmkitError]
    warnings: list[str] = []
    templates: dict[TemplateJob, TemplateFile] = {}
    images: dict[TemplateJob, Sequence[ListedImage]] = {}
    failed: set[TemplateJob] = set()

    def load(self) -> None:
        """Read all templates and list their images."""
        for job in self.plan.jobs:
            self.files.protect(job.path)
        for job in self.plan.jobs:
            try:
                for target in job.targets:
                    if path := target.path(self.options.plan):
                        self.files.claim(path, job.path, target.location)
                self.images[job] = ()
                if job.type is not None:
                    self.templates[job] = TemplateFile.open(job.path)
                    self.images[job] = list_images(self.templates[job], job.type, compat=self.options.plan.compat)
            except OpmkitError as error:
                self._fail(job, error)

    def report_images(self, errors: Mapping[str, OpmkitError]) -> None:
        """Add an error for each image that can't be read, with the lines of the templates that list it."""
        locations: dict[str, list[str]] = {image: [] for image in errors}
        for job, images in self.images.items():
            for listed in images:
                if listed.image in errors:
                    self.failed.add(job)
                    locations[listed.image].append(str(listed.location))
        for image, error in errors.items():
            first, *others = dict.fromkeys(locations[image])
            more = f" and {len(others) - MAX_USES} more" if len(others) > MAX_USES else ""
            also = f" (also in {', '.join(others[:MAX_USES])}{more})" if others else ""
            named = "" if image in error.message else f"{image}: "
            line, *details = error.lines
            self.errors.append(CatalogError(f"{first}: {named}{line}{also}", details=details, hint=error.hint))

    def render(self, reader: BundleReader, progress: Progress) -> list[RenderedCatalog]:
        """Render the templates whose images can be read, and stage their catalogs."""
        catalogs: list[RenderedCatalog] = []
        progress.begin("Writing catalogs", len(self.plan.jobs), unit="templates")
        try:
            for job in self.plan.jobs:
                if job not in self.failed:
                    try:
                        catalogs += self._render_job(job, reader)
                    except OpmkitError as error:
                        self._fail(job, error)
                progress.advance(1)
        finally:
            progress.end()
        return catalogs

    def _fail(self, job: TemplateJob, error: OpmkitError) -> None:
        if error.message not in {known.message for known in self.errors}:  # a template may be mapped several times
            self.errors.append(error)
        self.failed.add(job)

    def _render_job(self, job: TemplateJob, reader: BundleReader) -> Iterator[RenderedCatalog]:
        reader.forget()
        encoded: dict[tuple[MigrationLevel, FileFormat], bytes] = {}
        blobs_by_level: dict[MigrationLevel, Blobs] = {}
        for target in job.targets:
            if target.level not in blobs_by_level:
                blobs_by_level[target.level] = self._render_level(job, target.level, reader)
            blobs = blobs_by_level[target.level]
            path = self._claim_path(job, target, blobs)
            key = (target.level, FileFormat.by_extension(path, self.options.plan.file_format))
            if key not in encoded:
                encoded[key] = _ENCODERS[key[1]](sort_blobs(blobs))
            status = self.files.stage(path, encoded[key])
            for other in other_formats(path):
                self.warnings.append(f"{other}: part of the same catalog as {path}; remove one of them")
            yield RenderedCatalog(path, job.path, status, target.level, len(blobs.bundles))

    def _render_level(self, job: TemplateJob, level: MigrationLevel, reader: BundleReader) -> Blobs:
        name = str(job.path)
        if job.type is None:
            blobs = migrate(parse_blobs(read_file(job.path), name), level)
        else:
            compat = self.options.plan.compat
            render = _LocatedReader(reader, dict(reversed(self.images[job])))
            blobs = render_template(self.templates[job], job.type, render, level=level, compat=compat)
        if self.options.validate:
            try:
                raise_findings(check_blobs(blobs))
            except InvalidCatalog as error:
                first, *others = (line if line.startswith(f"{name}:") else f"{name}: {line}" for line in error.lines)
                hint = Hint.any_of(error.hint, Hint("write invalid catalogs with {}", IndexSetting.NO_VALIDATE))
                raise InvalidCatalog(first, details=others, hint=hint) from error
        return blobs

    def _claim_path(self, job: TemplateJob, target: CatalogTarget, blobs: Blobs) -> Path:
        """Return the path of a catalog, which may depend on its package."""
        path = target.path(self.options.plan)
        if path is not None:
            return path
        packages = [package.name for package in blobs.packages]
        path = target.path(self.options.plan, packages[0]) if len(packages) == 1 and is_safe_name(packages[0]) else None
        if path is None:
            found = ", ".join(map(repr, packages)) or "none"
            hint = f"Write a template for each package, or list it in the catalog_mapping of {CI_FILE}."
            raise InvalidCatalog(f"{job.path}: cannot name the catalog by its package: packages: {found}", hint=hint)
        self.files.claim(path, job.path, target.location)
        return path
