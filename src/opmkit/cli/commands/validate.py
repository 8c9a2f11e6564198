"""``opm validate``: validate a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import ValueFormat, ValueOutput, format_count, print_value
from opmkit.cli.errors import print_hint, print_to_stderr
from opmkit.cli.fbc_output import CompatOption
from opmkit.cli.index_flags import INDEX_HELP
from opmkit.cli.lazy import call_once
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from opmkit.index.fbc.check.result import ValidationResult


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    catalog: Annotated[str, typer.Argument(metavar="CATALOG", help=INDEX_HELP)],
    output: ValueOutput = ValueFormat.TEXT,
    compat: CompatOption = Compat.NEWEST,
) -> None:
    """Validate a catalog and report each finding with file, line and a hint

    Nothing is printed for a valid catalog. The exit code is 1 if there is an error; warnings do not change it.

    [bold]Examples:[/]

      opm validate ./catalog

      opm validate quay.io/me/catalog:1 --output json
    """
    from opmkit.index.fbc.check.result import validate
    from opmkit.index.image.source import IndexSource

    result = validate(IndexSource.resolve(call_once(registry_flags.tool), catalog).load(), compat)
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
        print_hint(finding.hint)
    if not result.passed:
        first = next(finding for finding in result.findings if finding.severity is Severity.ERROR)
        counts = f"{format_count(len(result.errors), 'error')}, {format_count(len(result.warnings), 'warning')}"
        print_to_stderr(f"Error: {catalog}: invalid catalog: {first} ({counts})")
