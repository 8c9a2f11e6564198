"""``opm validate``: whether a catalog keeps the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import ValueFormat, ValueOutput, print_value
from opmkit.cli.errors import print_to_stderr
from opmkit.cli.fbc_output import CompatOption
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from opmkit.index.fbc.check.result import ValidationResult


def validate(
    ctx: typer.Context,
    connection: Connection,
    catalog: Annotated[
        str,
        typer.Argument(metavar="CATALOG", help="A catalog directory, a database file, or an index image of either."),
    ],
    output: ValueOutput = ValueFormat.TEXT,
    compat: CompatOption = Compat.NEWEST,
) -> None:
    """Tell everything that is wrong with a catalog, with file, line and remedy; nothing if all is well.

    Exits with 1 if a rule is broken. Warnings are for what is hardly meant, and change nothing.

    [bold]Examples:[/]

      opm validate ./catalog

      opm validate quay.io/me/catalog:1 --output json
    """
    from opmkit.index.fbc.check.result import validate
    from opmkit.index.image.source import IndexSource

    result = validate(IndexSource.resolve(made_once(connection.tool), catalog).load(), compat)
    if output is ValueFormat.TEXT:
        _print_findings(result, catalog)
    else:
        print_value(result.report(), output)
    if not result.passed:
        ctx.exit(1)


def _print_findings(result: ValidationResult, catalog: str) -> None:
    """Print findings to stderr as ``FILE:LINE: SEVERITY: MESSAGE``, then the first error as the ``Error:`` line."""
    from opmkit.bundle.finding import Severity

    directory = f"{catalog.rstrip('/')}/" if Path(catalog).is_dir() else ""
    for finding in result.findings:
        location = f"{directory}{finding.location}: " if finding.file else ""
        subject = f"{finding.subject}: " if finding.subject else ""
        print_to_stderr(f"{location}{finding.severity}: {subject}{finding.message}")
        if finding.hint:
            print_to_stderr(f"  hint: {finding.hint}")
    if not result.passed:
        first = next(finding for finding in result.findings if finding.severity is Severity.ERROR)
        counts = f"{_count(len(result.errors), 'error')}, {_count(len(result.warnings), 'warning')}"
        print_to_stderr(f"Error: {catalog}: invalid catalog: {first} ({counts})")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
