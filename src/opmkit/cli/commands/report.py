"""``opm report``: merge the reports of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.flags.validation import ReportFormat
from opmkit.cli.output.errors import UsageError
from opmkit.cli.policy_file import REPORT_PANEL

COMMAND = "opm report merge"
MAX_REPORT = 1 << 30
"""Maximum size of a report, in bytes."""


def merge(
    ctx: typer.Context,
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORT", help="JSON, SARIF or JUnit reports, one of each shard")
    ],
    output: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Output format: text, json, sarif, junit, github or markdown; default: that of the first report",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = "",
) -> None:
    """Merge the reports of all shards of a validation into the report of one process

    The reports are those of 'opm bundle validate' for shards. Rules over several bundles are applied here, since a
    shard has only some of the bundles. The exit code is that of one process.

    [bold]Examples:[/]

      opm report merge shard-1.json shard-2.json shard-3.json

      opm report merge reports/*.sarif --output sarif > validation.sarif
    """
    from opmkit.bundle.validation.shard_report import decode_reports, merge_shards
    from opmkit.cli.output.validation import print_results
    from opmkit.cli.validation_run import combine_results

    formats = [name for name in ReportFormat if name is not ReportFormat.JSON_ALPHA1]
    if output and output not in formats:
        raise UsageError(f"unknown format {output!r} of --output: one of {', '.join(formats)}", COMMAND)
    read = [_read(path) for path in reports]
    decoded = decode_reports((str(path), data) for path, (_, data) in zip(reports, read, strict=True))
    merged = merge_shards(decoded)
    _, first = decoded[0]
    sources = [placed.source for placed in merged]
    results = combine_results([placed.result for placed in merged], sources, first.settings)
    report_format = ReportFormat(output or read[0][0])
    if not print_results(results, report_format, first.settings, sources, first.selection.skipped):
        ctx.exit(1)


def _read(path: Path) -> tuple[str, dict[str, object]]:
    """Return the format of a report and the data of its shard; raise InvalidReport if it has none."""
    from opmkit.bundle.reports import json
    from opmkit.bundle.validation.shard_report import InvalidReport
    from opmkit.core.files import disk_errors, read_limited

    with disk_errors(path):
        found = json.extract(read_limited(path, MAX_REPORT))
    if found is None:
        raise InvalidReport(
            f"{path}: not the report of a shard",
            hint="write it with 'opm bundle validate --shard K/N' and --output json, sarif or junit",
        )
    return found
