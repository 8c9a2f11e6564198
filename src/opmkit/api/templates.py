"""Operations on catalog templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.core.progress import Progress
    from opmkit.index.templates.repository.options import TemplateOptions
    from opmkit.index.templates.repository.result import RenderedTemplates


class TemplateOperations(Session):
    """Operations on catalog templates."""

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
        from opmkit.index.render import open_render_cache
        from opmkit.index.templates.repository.discovery import find_templates
        from opmkit.index.templates.repository.options import TemplateOptions
        from opmkit.index.templates.repository.run import render_plan

        cache = open_render_cache(self._store.cache_directory("bundles"))
        run = (options or TemplateOptions()).run_options(output, cache, check=check)
        return render_plan(lambda: self._registry_tool, find_templates(templates, run.plan), run, progress=progress)
