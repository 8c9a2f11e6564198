"""``opm index diff``: show the differences between two indexes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.index import INDEX_HELP, check_kinds
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import format_count, print_bytes, print_json, print_report, print_text
from opmkit.cli.output.errors import print_to_stderr
from opmkit.cli.output.fbc import refuse_terminal
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import Difference


class DiffFormat(StrEnum):
    """Output formats of a difference."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


def diff(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    before: Annotated[str, typer.Argument(metavar="OLD", help=INDEX_HELP)],
    after: Annotated[str, typer.Argument(metavar="NEW", help=INDEX_HELP)],
    output: DiffFormat = flag(DiffFormat.TEXT, "Output format; html draws the graphs", "-o"),
    fail_on: list[str] | None = flag(
        None,
        "Exit with 1 if there are differences of these kinds: added, removed, changed, or with an object, "
        "such as removed-bundle; stranded for installed versions that lose their updates",
        metavar="KIND,...",
    ),
    pull_bundles: bool = flag(False, "Read missing CRDs from the bundle images"),
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
    from opmkit.index.diff.report import diff_as_markdown, diff_as_text, gate_as_markdown

    refuse_terminal(output.value, ctx.command_path, "redirect standard output to a file: > changes.html")
    kinds = list(filter(None, fail_on or ()))
    check_kinds(kinds, ctx.command_path)
    opm = registry_flags.opm(container_tool)
    with progress("Comparing indexes") as bars:
        if output is DiffFormat.HTML:
            page = opm.draw_comparison(before, after, fail_on=kinds, pull_bundles=pull_bundles, progress=bars)
            comparison = page.comparison
        else:
            comparison = opm.compare_indexes(before, after, fail_on=kinds, pull_bundles=pull_bundles, progress=bars)
    difference, failures = comparison.diff, comparison.failures
    if output is DiffFormat.HTML:
        print_bytes([page.text.encode()])
    if output is DiffFormat.JSON:
        fields: dict[str, Any] = difference.to_dict()
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


def _print_failures(failures: Sequence[Difference], kinds: Sequence[str]) -> None:
    """Print the selected differences, then their number as the ``Error:`` line, to stderr."""
    print_to_stderr(*map(str, failures))
    if failures:
        print_to_stderr(f"Error: {format_count(len(failures), 'difference')} of the kinds {', '.join(kinds)}")
