"""``opm template onboard``: write templates for operators whose catalogs are built from bundle directories."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import format_count, print_json, print_line, print_report, print_table, print_text
from opmkit.cli.output.errors import conflicting_flags, print_error, print_to_stderr, print_warning
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from opmkit import OnboardedOperator, Onboarding

_HEADER = ("OPERATOR", "STATUS", "TEMPLATE", "FILES", "VERSIONS", "NEEDS A PERSON")


class OnboardingFormat(StrEnum):
    """Output formats of onboarding."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class OnboardingIncomplete(OpmkitError):
    """Operators that need a person."""


def onboard(
    ctx: typer.Context,
    *,
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Operator directory, or a repository with the directory operators"),
    ],
    from_: list[str] | None = flag(
        None,
        "Published catalogs; default: the index images in the config.yaml of the repository",
        "--from",
        metavar="[VERSION=]INDEX,...",
    ),
    per_version: bool = flag(False, "Write one template per OpenShift version"),
    force: bool = flag(False, "Replace existing templates and mappings"),
    check: bool = flag(
        False,
        "Fail if a rendered catalog differs from the published one; writes nothing",
    ),
    dry_run: bool = flag(False, "Print the difference as a unified diff, and write nothing"),
    output: OnboardingFormat = flag(OnboardingFormat.TEXT, "Output format: text, json or markdown", "-o"),
    registry_flags: RegistryFlags,
) -> None:
    """Move operators from bundle directories to file-based catalogs

    Writes the smallest templates that render to what is published for each OpenShift version, the mapping of templates
    in ci.yaml, and the target catalogs in the Makefile: all files of an operator, or none. Prints a table for a
    repository.

    The exit code is 1 if an operator needs a person: it is not published, files have other content, or a rendered
    catalog differs from the published one.

    [bold]Examples:[/]
      opm template onboard operators/lagoon --from quay.io/me/catalog:v4.19,quay.io/me/catalog:v4.20 --dry-run
      opm template onboard operators/lagoon --from v4.20=./published --check
      opm template onboard . --output markdown > onboarding.md
    """
    from opmkit import OnboardingOptions

    if check and dry_run:
        raise conflicting_flags("--check", "--dry-run", ctx.command_path)
    options = OnboardingOptions(tuple(filter(None, from_ or ())), per_version, force, check, dry_run)
    opm = registry_flags.opm()
    with progress("Reading published catalogs") as bars:
        result = opm.onboard_operators(directory, options, warn=print_warning, progress=bars)
    with printing_result(f"{directory}: onboarded"):
        if output is OnboardingFormat.JSON:
            print_json(result.to_dict())
        elif output is OnboardingFormat.MARKDOWN:
            print_text(result.to_markdown())
        else:
            _print_text(result, dry_run=dry_run)
    incomplete = sum(bool(operator.problems) for operator in result.operators)
    if incomplete:
        needs = "needs" if incomplete == 1 else "need"
        print_error(OnboardingIncomplete(f"{format_count(incomplete, 'operator')} {needs} a person"))
        raise typer.Exit(1)


def _print_text(result: Onboarding, *, dry_run: bool) -> None:
    """Print the files of one operator, or a table of several."""
    if len(result.operators) == 1:
        _print_operator(result.operators[0], dry_run=dry_run)
        return
    print_table(_HEADER, [operator.row for operator in result.operators])
    counts = Counter(operator.status.value for operator in result.operators)
    parts = (f"{count} {status}" for status, count in sorted(counts.items()))
    print_to_stderr(f"{format_count(len(result.operators), 'operator')}: {', '.join(parts)}")


def _print_operator(operator: OnboardedOperator, *, dry_run: bool) -> None:
    if operator.status == "onboarded":
        files = ", ".join(template.name for template in operator.templates)
        print_line(f"{operator.directory}: already onboarded: {files}")
    for file in operator.files:
        if not file.changed:
            print_line(f"{file.path}: unchanged")
        elif dry_run:
            print_text(file.diff.removesuffix("\n"))
        elif operator.status != "failed":
            print_line(f"{file.path}: {operator.status}")
    for difference in operator.differences:
        print_line(f"{difference.catalog}: published and rendered catalog differ:")
        print_report(difference.to_text())
    print_to_stderr(*(f"{operator.directory}: {problem}" for problem in operator.problems))
