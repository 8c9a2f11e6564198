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

    verdict = validate(IndexSource.resolve(made_once(connection.tool), catalog).load(), compat)
    if output is ValueFormat.TEXT:
        _tell(verdict, catalog)
    else:
        print_value(verdict.report(), output)
    if not verdict.passed:
        ctx.exit(1)


def _tell(verdict: ValidationResult, catalog: str) -> None:
    """Print each finding to stderr, as compilers do, so that editors find the place; then the first error again.

    Callers take the ``Error:`` line alone.
    """
    from opmkit.bundle.finding import Severity

    directory = f"{catalog.rstrip('/')}/" if Path(catalog).is_dir() else ""
    for severity, fault in verdict.findings:
        place = f"{directory}{fault.location}: " if fault.location.file else ""
        subject = f"{fault.subject}: " if str(fault.subject) else ""
        print_to_stderr(f"{place}{severity}: {subject}{fault.message}")
        if fault.advice:
            print_to_stderr(f"  hint: {fault.advice}")
    if not verdict.passed:
        first = next(fault for severity, fault in verdict.findings if severity is Severity.ERROR)
        counts = f"{_many(len(verdict.errors), 'error')}, {_many(len(verdict.warnings), 'warning')}"
        print_to_stderr(f"Error: {catalog}: invalid catalog: {first} ({counts})")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
