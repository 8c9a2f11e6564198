"""Operations that draw update graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from opmkit.api.session import Session
from opmkit.core.json_types import JsonResult
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.progress import Progress
    from opmkit.index.diff.differences import IndexComparison
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.compat import CatalogCompat
    from opmkit.index.pictures.mermaid import MermaidGraph
    from opmkit.index.pictures.page.page import NextUpdate


@dataclass(frozen=True, slots=True)
class Drawing(JsonResult):
    """Update graphs as text: HTML, SVG, DOT or mermaid.

    Attributes:
        text: The content of a file, in UTF-8.
        warnings: Parts that the format cannot show.
    """

    text: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonPage(JsonResult):
    """An HTML page with the update graphs of two indexes, and the comparison that it shows."""

    text: str
    comparison: IndexComparison


class GraphOperations(Session):
    """Operations that draw update graphs; the indexes may be invalid."""

    def draw_graph(
        self, index: str, package: str = "", channel: str = "", *, form: Literal["html", "svg", "dot", "mermaid"]
    ) -> Drawing:
        """Draw the update graphs of an index, one of its packages, or a channel of that.

        Args:
            index: Index image, catalog directory or database file.
            package: Package to draw, by default all.
            channel: Channel of the package to draw, by default all.
            form: Format: an interactive page, SVG, Graphviz's DOT, or mermaid text.

        Raises:
            CatalogError: The index cannot be read, or has no such package or channel.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.index.fbc.blobs import Blobs
        from opmkit.index.pictures.dot import render_dot
        from opmkit.index.pictures.mermaid import render_mermaid
        from opmkit.index.pictures.page.page import render_page
        from opmkit.index.pictures.problems import package_problems
        from opmkit.index.pictures.svg import render_svg
        from opmkit.index.pictures.view import package_views

        blobs = self._blobs([index])
        packages = package_views(blobs, package, channel)
        if package:
            blobs = Blobs.from_blobs(blob for blob in blobs if blob.package == package)
        if form == "mermaid":
            channels = tuple(each for view in packages for each in view.channels)
            return _as_drawing(render_mermaid(replace(blobs, channels=channels)))
        problems = package_problems(blobs, packages)
        if form == "html":
            return Drawing(render_page(index, packages, problems, _updates(blobs)).decode())
        render = render_svg if form == "svg" else render_dot
        return Drawing(render(packages, problems))

    def draw_mermaid(
        self,
        indexes: Sequence[str] | Blobs,
        package: str = "",
        minimum_edge: str = "",
        *,
        compat: CatalogCompat | None = None,
        v0_semantics: bool = False,
    ) -> Drawing:
        """Draw the update graphs of indexes as mermaid text, line for line as Go opm writes it.

        Args:
            indexes: Index images, catalog directories and database files, or a catalog in memory.
            package: Package to draw, by default all.
            minimum_edge: Bundle whose package to draw, from its version upwards.
            compat: Release of Go opm whose text is written.
            v0_semantics: Mark skipped bundles, and updates that are never used.

        Raises:
            CatalogError: An index cannot be read, or the package or bundle does not exist.
            ImageToolsError: An image cannot be read.
        """
        from opmkit.index.fbc.blobs import Blobs
        from opmkit.index.fbc.compat import CatalogCompat
        from opmkit.index.pictures.mermaid import render_mermaid
        from opmkit.index.pictures.view import GraphFilter

        selected, release = GraphFilter(package, minimum_edge), compat or CatalogCompat.NEWEST
        blobs = indexes if isinstance(indexes, Blobs) else self._blobs(indexes)
        return _as_drawing(render_mermaid(blobs, selected, compat=release, v0_semantics=v0_semantics))

    def draw_comparison(
        self,
        before: str,
        after: str,
        *,
        fail_on: Sequence[str] = (),
        pull_bundles: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> ComparisonPage:
        """Draw the update graphs of the packages that differ between two indexes, as an HTML page.

        Args:
            before: Index image, catalog directory or database file.
            after: The index to compare with it.
            fail_on: Kinds of differences that fail the gate, as for `compare_indexes`.
            pull_bundles: Read missing objects from the bundle images, as for `compare_indexes`.
            progress: Receiver of progress reports.

        Raises:
            CatalogError: An index cannot be read.
            BundleError, ImageToolsError: An image cannot be read.
            ValueError: A kind is unknown.
        """
        from opmkit.index.diff.differences import IndexComparison
        from opmkit.index.diff.fbc import diff_blobs
        from opmkit.index.image.source import INDEXES, IndexSource
        from opmkit.index.operations.diff import with_reviewed_updates
        from opmkit.index.pictures.page.comparison import compare_catalogs
        from opmkit.index.pictures.page.page import render_comparison
        from opmkit.index.pictures.problems import package_problems
        from opmkit.index.pictures.view import package_views

        sources = [IndexSource.find(lambda: self._tool, name, build_context=True) for name in (before, after)]
        for source in sources:
            source.require(INDEXES)
        old, new = (source.blobs() for source in sources)
        read = self._bundle_reader(progress) if pull_bundles else None
        read_permissions = self._permission_reader(progress) if pull_bundles else None
        difference = with_reviewed_updates(diff_blobs(old, new), old, new, read, read_permissions)
        packages = compare_catalogs(old, new, difference)
        names = {comparison.package.name for comparison in packages}
        views = package_views(new)
        total = len({view.name for view in (*views, *package_views(old))})
        noun = "package" if total == 1 else "packages"
        summary = f"{len(names)} of {total} {noun} changed from {before} to {after}."
        problems = package_problems(new, [view for view in views if view.name in names])
        page = render_comparison(f"{before} → {after}", summary, packages, problems)
        return ComparisonPage(page.decode(), IndexComparison.from_diff(difference, fail_on))

    def _blobs(self, indexes: Sequence[str]) -> Blobs:
        from opmkit.index.fbc.blobs import Blobs
        from opmkit.index.image.source import IndexSource

        sources = (IndexSource.resolve(lambda: self._registry_tool, index) for index in indexes)
        return Blobs.from_blobs(blob for source in sources for blob in source.blobs())


def _updates(blobs: Blobs) -> dict[tuple[str, str, str], NextUpdate]:
    """Return what OLM v0 does with each bundle, nothing for an invalid catalog, which OLM cannot resolve."""
    from opmkit.index.errors import InvalidCatalog
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.pictures.page.page import NextUpdate
    from opmkit.index.plan.paths import plan_updates

    try:
        catalog = Catalog.from_blobs(blobs)
    except InvalidCatalog:
        return {}
    return {
        (path.package, path.channel, path.installed): NextUpdate(
            path.hops[0] if path.hops else "", "" if path.hops else path.reason
        )
        for path in plan_updates(catalog, catalog)
    }


def _as_drawing(graph: MermaidGraph) -> Drawing:
    return Drawing(graph.text, tuple(graph.warnings))
