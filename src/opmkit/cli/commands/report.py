"""``opm report``: merge the reports of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.flags.policy import REPORT_PANEL
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.validation import OF_ONE_BUNDLE, ReportFormat
from opmkit.cli.parser.declaration import flag

COMMAND = "opm report merge"


def merge(
    ctx: typer.Context,
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORT", help="JSON, SARIF or JUnit reports, one of each shard")
    ],
    output: str = flag(
        "",
        "Output format: text, json, sarif, junit, github or markdown; default: that of the first report",
        panel=REPORT_PANEL,
        metavar="FORM",
    ),
) -> None:
    """Merge the reports of all shards of a validation into the report of one process

    The reports are those of 'opm bundle validate' for shards. Rules over several bundles are applied here, since a
    shard has only some of the bundles. The exit code is that of one process.

    [bold]Examples:[/]
      opm report merge shard-1.json shard-2.json shard-3.json
      opm report merge reports/*.sarif --output sarif > validation.sarif
    """
    from opmkit.api import Opm
    from opmkit.cli.output.validation import print_report

    formats = [name for name in ReportFormat if name not in OF_ONE_BUNDLE]
    if output and output not in formats:
        raise UsageError(f"unknown format {output!r} of --output: one of {', '.join(formats)}", COMMAND)
    report = Opm().merge_reports(reports)
    print_report(report, ReportFormat(output or report.form))
    if not report.passed:
        ctx.exit(1)
