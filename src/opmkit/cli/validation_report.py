"""Output of ``opm bundle validate``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from opmkit.cli.console import print_bytes, print_json, print_line, print_text
from opmkit.cli.errors import print_error, print_to_stderr
from opmkit.cli.validation_flags import ReportFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import Source
    from opmkit.bundle.validation.tags import SkippedTags


def print_report(
    results: Sequence[ValidationResult],
    report_format: ReportFormat,
    fail_on: Severity,
    sources: Sequence[Source],
    skipped: SkippedTags,
) -> None:
    """Print the results of all bundles in a format."""
    if skipped.total and report_format not in (ReportFormat.TEXT, ReportFormat.JSON):  # no place in these formats
        print_to_stderr(f"skipped {skipped}")
    match report_format:
        case ReportFormat.TEXT:
            from opmkit.bundle.reports import text

            _print_styled(text.lines(results, skipped))
        case ReportFormat.JSON:
            from opmkit.bundle.reports import json as json_report

            print_json(json_report.report(results, fail_on, skipped.total))
        case ReportFormat.SARIF:
            from opmkit.bundle.reports import sarif
            from opmkit.bundle.validation.rule_registry import rules

            roots = {source.target: sarif.target_uri(source.target, source.location) for source in sources}
            print_json(sarif.report(results, rules(), roots))
        case ReportFormat.JUNIT:
            from opmkit.bundle.reports import junit

            print_bytes([junit.report(results, fail_on).encode()])
        case ReportFormat.GITHUB:
            from opmkit.bundle.reports import github

            for line in github.lines(results):
                print_line(line)
        case ReportFormat.MARKDOWN:
            from opmkit.bundle.reports import markdown

            print_text(markdown.report(results, fail_on))
        case ReportFormat.JSON_ALPHA1:
            from opmkit.bundle.reports import json as json_report

            print_json(json_report.json_alpha1(results[0]))


def print_go_result(result: ValidationResult, tool: str, fail_on: Severity) -> None:
    """Print the last line of Go opm's log to stderr, which scripts search for."""
    if result.passes(fail_on):
        from opmkit.cli.server_logs import format_record

        success = "All validation tests have been completed successfully"
        print_to_stderr(format_record("info", success, {"container-tool": tool}))
        return
    from opmkit.bundle.errors import InvalidBundle

    messages = [finding.message for finding in result.findings] or [result.error]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    print_error(InvalidBundle(f"Bundle validation errors: {messages[0]}{more}"))


def print_operator_sdk_success() -> None:
    """Print the last line of operator-sdk's log to stderr, which scripts search for."""
    from opmkit.cli.server_logs import format_record

    print_to_stderr(format_record("info", "All validation tests have completed successfully", {}))


def print_first_failure(failed: ValidationResult, fail_on: Severity) -> None:
    """Print the first finding that makes the command fail to stderr, as callers expect an ``Error:`` line."""
    from opmkit.bundle.errors import InvalidBundle

    message = failed.error.removeprefix(f"{failed.target}: ")
    if not message:
        first = next(finding for finding in failed.findings if finding.fails(fail_on))
        others = sum(finding.fails(fail_on) for finding in failed.findings) - 1
        location = f"{first.location}: " if first.file else ""
        message = f"invalid bundle: {location}{first.message}{f' (and {others} more)' if others else ''}"
    print_error(InvalidBundle(f"{failed.target}: {message}"))


def _print_styled(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, with their styles if stdout is a terminal."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        for line, _ in lines:
            print_line(line)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for line, style in lines:
        console.print(Text(line, style=style))
