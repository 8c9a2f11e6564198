"""Operations on catalog templates."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from opmkit.api.session import Session, ignore_warning
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from opmkit.core.progress import Progress
    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.render import RenderOptions
    from opmkit.index.templates.composite import CompositeOptions
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.edit.apply import PromoteOptions, TemplateAddOptions
    from opmkit.index.templates.edit.template import EditableTemplate, TemplateBundle
    from opmkit.index.templates.edit.write import EditedTemplate, TemplateEdit
    from opmkit.index.templates.onboarding.result import Onboarding
    from opmkit.index.templates.onboarding.run import OnboardingOptions
    from opmkit.index.templates.render import TemplateType
    from opmkit.index.templates.renderer import BundleRenderer
    from opmkit.index.templates.repository.options import TemplateOptions
    from opmkit.index.templates.repository.outputs import RenderedTemplates
    from opmkit.index.templates.repository.promotion import PromotedRepository, PromotionRequest


class TemplateOperations(Session):
    """Operations on catalog templates."""

    def render_template(
        self,
        template: Path | BinaryIO,
        kind: TemplateType | None = None,
        options: RenderOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> Blobs:
        """Return the catalog of a template, which may refer to bundle images only.

        Args:
            template: File, or stream, which errors call standard input.
            kind: Type of the template, by default that of its schema.
            options: Format of the bundles, and the receiver of warnings.
            progress: Receiver of progress reports.

        Raises:
            InvalidCatalog: The template is invalid; the error lists each finding with its file and line.
            CatalogError, BundleError, ImageToolsError: A bundle cannot be rendered.
            DiskError: The file cannot be read.
        """
        from opmkit.index.fbc.csv_metadata import MigrationLevel
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.render import render_template, template_type

        options, file = options or RenderOptions(), self._open_template(template)
        bundles = replace(options, level=MigrationLevel.NONE)  # the package takes its description from their manifests
        render = self._renderer(bundles, progress)
        return render_template(file, kind or template_type(file), render, level=options.level, compat=options.compat)

    def build_composite(
        self,
        catalogs: str | Path | BinaryIO,
        contribution: Path | BinaryIO,
        options: CompositeOptions | None = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        """Build the catalogs of a composite template, and write their files.

        Args:
            catalogs: Configuration of the catalogs and their builders: an HTTP or HTTPS URL, a file, or a stream.
            contribution: File or stream with the contribution to each catalog.
            options: Options of the catalogs.
            progress: Receiver of progress reports.

        Raises:
            InvalidCatalog: A configuration, a template or a catalog is invalid; the error lists all findings.
            CatalogError, BundleError, ImageToolsError: A catalog cannot be built. Those before it are written.
            DiskError: A file cannot be read or written.
        """
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.composite import CompositeOptions, build_components, parse_components

        options = options or CompositeOptions()
        config = self._open_template(catalogs)
        components = parse_components(config, self._open_template(contribution), options.compat)
        render = self._renderer(RenderOptions(warn=options.warn, compat=options.compat), progress)
        build_components(components, options, render)

    def convert_to_template(
        self, catalog: Path | BinaryIO, kind: TemplateType, *, warn: Callable[[str], None] = ignore_warning
    ) -> Blobs:
        """Return a basic or substitutes template with the bundle images of a catalog, as the only document.

        Args:
            catalog: File of the catalog, or stream, which errors call standard input.
            kind: Type of the template.
            warn: Called with a warning about each repeated key.

        Raises:
            InvalidCatalog: The catalog is invalid; the error lists each finding with its file and line.
            DiskError: The file cannot be read.
            ValueError: Catalogs cannot be converted to templates of the type.
        """
        from opmkit.index.fbc.blobs import Blobs
        from opmkit.index.templates.document import TemplateFile
        from opmkit.index.templates.render import to_template

        file = TemplateFile.from_source(catalog, allow_duplicates=True)
        for finding in file.warnings:
            warn(f"{finding}: only the last value counts")
        return Blobs(others=(to_template(file, kind),))

    def render_templates(
        self,
        templates: Sequence[Path],
        output: Path,
        options: TemplateOptions | None = None,
        *,
        check: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> RenderedTemplates:
        """Render catalog templates to files below a directory: all of them, or none if there is an error.

        Args:
            templates: Template files, and directories to search.
            output: Directory of the catalogs.
            options: Selection of catalogs, and the use of the lock file.
            check: Write nothing, and compare the files; ``is_stale`` of the result is whether one would be written.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: Templates or catalogs are invalid, or images cannot be read; it lists all errors with template
                and line.
            ImageToolsError: A file cannot be read or written.
            ValueError: Options are unknown, or exclude each other.
        """
        from opmkit.index.templates.repository.discovery import find_templates
        from opmkit.index.templates.repository.options import TemplateOptions
        from opmkit.index.templates.repository.run import render_plan

        run = (options or TemplateOptions()).run_options(output, self._render_cache, self._trust_policy, check=check)
        return render_plan(lambda: self._registry_tool, find_templates(templates, run.plan), run, progress=progress)

    def add_to_template(
        self,
        template: Path,
        bundle: str,
        options: TemplateAddOptions | None = None,
        *,
        dry_run: bool = False,
        plan_updates: bool = False,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> tuple[EditedTemplate, ...]:
        """Add a bundle to a template file. Comments and formatting are retained.

        Args:
            template: File of a basic, semver or substitutes template.
            bundle: Bundle image to list, or ``SOURCE=IMAGE`` to read the bundle from a directory or another image.
            options: Channels and edges of the bundle.
            dry_run: Write nothing, and return what would change.
            plan_updates: Whether the result says what clusters do with the rendered catalog; renders all bundles.
            warn: Called with each warning about a bundle that is read.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The bundle cannot be added, or the template is or would become invalid.
            BundleError, ImageToolsError: A bundle cannot be read.
            DiskError: The file cannot be read or written. Nothing was changed.
        """
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.edit.apply import TemplateAddOptions, add
        from opmkit.index.templates.edit.write import edit_template, require_template

        require_template(template)
        rendering, adding = RenderOptions(warn=warn), options or TemplateAddOptions()
        added, render = self._read_bundle(bundle, rendering, progress), self._renderer(rendering, progress)

        def edit(parsed: EditableTemplate) -> TemplateEdit:
            edited = add(parsed, added, adding, render)
            return _with_plan(edited, parsed, render, {added.image: added.blob}) if plan_updates else edited

        return edit_template(template, edit, dry_run=dry_run)

    def promote_operators(self, path: Path, request: PromotionRequest) -> PromotedRepository:
        """Promote operators of a repository to another version of OpenShift: their catalogs and ``ci.yaml``.

        An operator that fails does not stop the others; its status says so.

        Args:
            path: The repository, or the directory of an operator in it.
            request: The versions and the operators; see `PromotionRequest.parse`.

        Raises:
            CatalogError: The path has no catalogs of the first version, or an operator has none.
        """
        from opmkit.index.templates.repository.promotion import promote_operators

        return promote_operators(path, request)

    def promote_in_template(
        self,
        template: Path,
        bundle: str,
        options: PromoteOptions,
        *,
        dry_run: bool = False,
        plan_updates: bool = False,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> tuple[EditedTemplate, ...]:
        """Add a bundle of one channel of a template file to other channels.

        Args:
            template: File of a basic or semver template.
            bundle: Name or image of the bundle; in a semver template also its version.
            options: The channels, and edges that differ.
            dry_run: Write nothing, and return what would change.
            plan_updates: Whether the result says what clusters do with the rendered catalog; renders all bundles.
            warn: Called with each warning about a bundle that is read.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The bundle cannot be promoted, or the template is or would become invalid.
            BundleError, ImageToolsError: A bundle of the template cannot be read.
            DiskError: The file cannot be read or written. Nothing was changed.
        """
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.edit.apply import promote
        from opmkit.index.templates.edit.write import edit_template, require_template

        require_template(template)
        render = self._renderer(RenderOptions(warn=warn), progress)

        def edit(parsed: EditableTemplate) -> TemplateEdit:
            edited = promote(parsed, bundle, options, render)
            return _with_plan(edited, parsed, render) if plan_updates else edited

        return edit_template(template, edit, dry_run=dry_run)

    def deprecate_in_template(
        self,
        template: Path,
        message: str,
        *,
        bundles: Sequence[str] = (),
        channels: Sequence[str] = (),
        package: bool = False,
        dry_run: bool = False,
    ) -> tuple[EditedTemplate, ...]:
        """Deprecate bundles, channels or the package of a template file.

        Args:
            template: File of a basic or substitutes template.
            message: Message to users; an empty one removes the deprecations.
            bundles: Names of bundles.
            channels: Names of channels.
            package: Whether to deprecate the package.
            dry_run: Write nothing, and return what would change.

        Raises:
            CatalogError: A bundle or channel does not exist, or the template is or would become invalid.
            DiskError: The file cannot be read or written. Nothing was changed.
        """
        from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE
        from opmkit.index.templates.edit.apply import deprecate
        from opmkit.index.templates.edit.write import edit_template, require_template

        require_template(template)
        named = [*((BUNDLE, name) for name in bundles), *((CHANNEL, name) for name in channels)]
        references = [*named, (PACKAGE, "")] if package else named
        return edit_template(template, lambda parsed: deprecate(parsed, references, message), dry_run=dry_run)

    def release_to_templates(
        self,
        directory: Path,
        image: str,
        *,
        dry_run: bool = False,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> tuple[EditedTemplate, ...]:
        """Add a bundle to the templates that its ``release-config.yaml`` names: to all of them, or to none.

        Args:
            directory: Bundle directory with the release configuration: ``OPERATOR/VERSION``.
            image: Image of the bundle, which the templates list.
            dry_run: Write nothing, and return what would change.
            warn: Called with each warning about the configuration, or about a bundle that is read.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The configuration or a template is invalid, or the bundle cannot be added.
            BundleError, ImageToolsError: A bundle cannot be read.
            DiskError: A file cannot be read or written. Nothing was changed.
        """
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.edit.release import plan_release
        from opmkit.index.templates.edit.write import edit_templates

        rendering = RenderOptions(warn=warn)
        bundle = self._read_bundle(f"{directory}={image}", rendering, progress)
        plan = plan_release(directory, bundle, self._renderer(rendering, progress))
        for warning in plan.warnings:
            warn(warning)
        return edit_templates(plan.paths, plan.edit, dry_run=dry_run)

    def onboard_operators(
        self,
        path: Path,
        options: OnboardingOptions | None = None,
        *,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> Onboarding:
        """Write templates for what is published of operators whose catalogs are built from bundle directories.

        The files of each operator are the templates, ``ci.yaml`` and ``Makefile``: all of them are written, or none.

        Args:
            path: Operator directory, or a repository, or its directory ``operators``.
            options: The published catalogs, and what to write; by default the catalogs in the ``config.yaml`` of the
                repository.
            warn: Called with each warning about a bundle that is rendered.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: The path has no operators, or a catalog is invalid or has no OpenShift version.
            ImageToolsError: A catalog cannot be read.
            DiskError: The directory or a catalog cannot be read.
        """
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.onboarding.run import OnboardingOptions, onboard
        from opmkit.index.templates.renderer import render_once

        render = render_once(self._renderer(RenderOptions(warn=warn), progress))
        options = options or OnboardingOptions()
        return onboard(lambda: self._registry_tool, path, options, render, progress=progress)

    def _open_template(self, source: str | Path | BinaryIO) -> TemplateFile:
        """Read a template from a URL, a file or a stream."""
        from opmkit.index.templates.document import MAX_TEMPLATE, TemplateFile

        if not isinstance(source, str):
            return TemplateFile.from_source(source)
        from opmkit.imagetools.registry.transport import download

        return TemplateFile.read(io.BytesIO(download(source, MAX_TEMPLATE, self.registries)), source)

    def _read_bundle(self, text: str, options: RenderOptions, progress: Progress) -> TemplateBundle:
        """Read a bundle to add, ``IMAGE`` or ``SOURCE=IMAGE``."""
        from opmkit.imagetools.reference import Reference
        from opmkit.index.templates.edit.template import read_bundle

        bundle = read_bundle(text, self._renderer(options, progress, allow_directories=True), options.warn)
        return replace(bundle, digest=lambda: self._registry_tool.registry_digest(Reference.parse(bundle.image)))

    def _renderer(
        self, options: RenderOptions, progress: Progress, *, allow_directories: bool = False
    ) -> BundleRenderer:
        """Return a renderer of bundle images; by default it reads no local files: templates may be untrusted."""
        from opmkit.index.image.source import SourceKind
        from opmkit.index.templates.renderer import bundle_renderer

        kinds = {SourceKind.BUNDLE_IMAGE} | ({SourceKind.BUNDLE_DIRECTORY} if allow_directories else set())
        options = replace(options, kinds=frozenset(kinds), cache=self._render_cache)
        return bundle_renderer(lambda: self._registry_tool, options, progress=progress)


def _with_plan(
    edit: TemplateEdit,
    before: EditableTemplate,
    renderer: BundleRenderer,
    known: Mapping[str, BundleBlob] | None = None,
) -> TemplateEdit:
    """Return an edit with the plan of the updates of versions that the catalog before it can have left installed."""
    from opmkit.index.operations.plan import plan_blobs
    from opmkit.index.templates.render import render_template
    from opmkit.index.templates.renderer import render_once

    render = render_once(renderer, known)
    after, published = (render_template(each.file, each.type, render) for each in (edit.template, before))
    return structs.replace(edit, plan=plan_blobs(after, published))
