"""``opm index diff``: show the differences between two indexes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import format_count, print_bytes, print_json, print_report, print_text
from opmkit.cli.output.errors import UsageError, print_to_stderr
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.diff.differences import Difference
    from opmkit.index.diff.model import IndexDiff


class DiffFormat(StrEnum):
    """Output formats of a difference."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


def diff(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    before: Annotated[str, typer.Argument(metavar="A", help=INDEX_HELP)],
    after: Annotated[str, typer.Argument(metavar="B", help=INDEX_HELP)],
    output: Annotated[
        DiffFormat,
        typer.Option(
            "--output", "-o", help="Output format: text, json, markdown, or html (a page with the update graphs)"
        ),
    ] = DiffFormat.TEXT,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND,...",
            help="Exit with 1 if there are differences of these kinds: added, removed, changed, or with an object, "
            "such as removed-bundle; stranded for installed versions that are no longer updated to the head",
        ),
    ] = None,
    container_tool: PullTool = "none",
) -> None:
    """Show the differences between two indexes: packages, channels, heads, default channels and bundles

    The exit code is 0, with or without differences, unless --fail-on selects one of them: then it is 1, as if an index
    cannot be read. JSON and Markdown list the selected differences, other formats print them to stderr.

    The HTML page draws the update graphs of the changed packages, with what was added, removed and changed.

    [bold]Examples:[/]

      opm index diff quay.io/me/catalog:1 quay.io/me/catalog:2

      opm index diff old.db new.db --output markdown

      opm index diff quay.io/me/catalog:1 ./catalog --output html > changes.html

      opm index diff quay.io/me/catalog:1 ./catalog --fail-on removed,changed-bundle
    """
    from opmkit.index.diff.differences import find_unknown_kind, select_differences
    from opmkit.index.diff.report import diff_as_markdown, diff_as_text, gate_as_markdown
    from opmkit.index.operations.diff import compare_indexes

    kinds = list(filter(None, fail_on or ()))
    if unknown := find_unknown_kind(kinds):
        raise UsageError(f"invalid value of --fail-on: {unknown}", ctx.command_path)
    tool = registry_flags.tool_named(container_tool)
    with waiting("Comparing indexes"):
        if output is DiffFormat.HTML:
            page, difference = _render_page(tool, before, after)
        else:
            page, difference = b"", compare_indexes(tool, before, after)
    if page:
        print_bytes([page])
    failures = select_differences(difference, kinds)
    if output is DiffFormat.JSON:
        fields: dict[str, Any] = {"packages": difference.packages, "stranded": difference.stranded}
        gate = {"passed": not failures, "fail_on": kinds, "failures": failures} if kinds else {}
        print_json(fields | gate)
    else:
        if output is DiffFormat.MARKDOWN and kinds:
            print_text(f"{gate_as_markdown(failures, kinds)}\n")
        if output is DiffFormat.MARKDOWN:
            print_text(diff_as_markdown(difference))
        elif output is DiffFormat.TEXT:
            print_report(diff_as_text(difference))
        _print_failures(failures, kinds)
    if failures:
        ctx.exit(1)


def _render_page(tool: ContainerTool, before: str, after: str) -> tuple[bytes, IndexDiff]:
    """Return the page of the update graphs, and the differences; databases are converted to file-based catalogs."""
    from opmkit.index.diff.fbc import diff_blobs
    from opmkit.index.image.source import INDEXES, IndexSource
    from opmkit.index.pictures.page.comparison import compare_catalogs
    from opmkit.index.pictures.page.page import render_comparison
    from opmkit.index.pictures.problems import package_problems
    from opmkit.index.pictures.view import package_views

    sources = [IndexSource.find(lambda: tool, name, build_context=True) for name in (before, after)]
    for source in sources:
        source.require(INDEXES)
    old, new = (source.blobs() for source in sources)
    difference = diff_blobs(old, new)
    comparisons = compare_catalogs(old, new, difference)
    names = {comparison.package.name for comparison in comparisons}
    views = package_views(new)
    shown = [view for view in views if view.name in names]
    total = len({view.name for view in (*views, *package_views(old))})
    summary = f"{len(names)} of {format_count(total, 'package')} changed from {before} to {after}."
    return render_comparison(f"{before} → {after}", summary, comparisons, package_problems(new, shown)), difference


def _print_failures(failures: Sequence[Difference], kinds: Sequence[str]) -> None:
    """Print the selected differences, then their number as the ``Error:`` line, to stderr."""
    print_to_stderr(*map(str, failures))
    if failures:
        print_to_stderr(f"Error: {format_count(len(failures), 'difference')} of the kinds {', '.join(kinds)}")
