"""Output of ``opm bundle validate``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from opmkit.bundle.reports.json import SHARD_KEY, add_to_junit, add_to_sarif
from opmkit.cli.flags.validation import ReportFormat
from opmkit.cli.output.console import print_bytes, print_json, print_line, print_text
from opmkit.cli.output.errors import print_error, print_to_stderr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit import Severity, ValidationResult
    from opmkit.bundle.validation.shard_report import ReportSettings
    from opmkit.bundle.validation.sources import SkippedTags, Source


OPERATOR_SDK = "operator-sdk"
"""The profile with the rules of operator-sdk."""


def print_results(
    results: Sequence[ValidationResult],
    report_format: ReportFormat,
    settings: ReportSettings,
    sources: Sequence[Source],
    skipped: SkippedTags,
    go_tool: str | None = None,
    *,
    shard: Mapping[str, Any] | None = None,
) -> bool:
    """Print the report and the last line on stderr, and return whether all bundles passed.

    Args:
        results: The results to print.
        report_format: The format of the report.
        settings: The settings of the validation.
        sources: The bundles.
        skipped: The tags that were not validated.
        go_tool: The container tool in the last line if that is to be Go opm's.
        shard: Data to embed in JSON, SARIF and JUnit reports.
    """
    fail_on = settings.fail_on
    _print_report(results, report_format, fail_on, sources, skipped, shard)
    failed = [result for result in results if not result.passes(fail_on)]
    if go_tool is not None:
        print_go_result(results[-1], go_tool, fail_on)
    elif failed:
        print_first_failure(failed[0], fail_on)
    elif settings.profile == OPERATOR_SDK:
        print_operator_sdk_success()
    return not failed


def _print_report(
    results: Sequence[ValidationResult],
    report_format: ReportFormat,
    fail_on: Severity,
    sources: Sequence[Source],
    skipped: SkippedTags,
    shard: Mapping[str, Any] | None,
) -> None:
    if skipped.total and report_format not in (ReportFormat.TEXT, ReportFormat.JSON):  # no place in these formats
        print_to_stderr(f"skipped {skipped}")
    match report_format:
        case ReportFormat.TEXT:
            from opmkit.bundle.reports import text

            _print_styled(text.lines(results, skipped))
        case ReportFormat.JSON:
            from opmkit.bundle.reports import json as json_report

            value = json_report.report(results, fail_on, skipped.total)
            print_json({**value, SHARD_KEY: shard} if shard else value)
        case ReportFormat.SARIF:
            from opmkit.bundle.reports import sarif
            from opmkit.bundle.validation.rule_registry import rules

            roots = {source.target: sarif.target_uri(source.target, source.location) for source in sources}
            log = sarif.report(results, rules(), roots)
            print_json(add_to_sarif(log, shard) if shard else log)
        case ReportFormat.JUNIT:
            from opmkit.bundle.reports import junit

            document = junit.report(results, fail_on)
            print_bytes([(add_to_junit(document, shard) if shard else document).encode()])
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
        from opmkit.cli.output.server_logs import format_record

        success = "All validation tests have been completed successfully"
        print_to_stderr(format_record("info", success, {"container-tool": tool}))
        return
    from opmkit.bundle.errors import InvalidBundle

    messages = [finding.message for finding in result.findings] or [result.error]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    print_error(InvalidBundle(f"Bundle validation errors: {messages[0]}{more}"))


def print_operator_sdk_log(results: Sequence[ValidationResult], settings: ReportSettings) -> bool:
    """Print the findings as log lines on stdout, as operator-sdk does, and return whether all bundles passed.

    Makefiles search stdout for ``warning``, so nothing else is printed there.
    """
    from opmkit.cli.output.server_logs import format_record

    for result in results:
        if result.error:
            print_line(format_record("error", result.error, {}))
        for finding in result.findings:
            location = f"{finding.location}: " if finding.file else ""
            print_line(format_record(finding.severity.value, f"{location}{finding.message}", {}))
    if not all(result.passes(settings.fail_on) for result in results):
        return False
    print_operator_sdk_success()
    return True


def print_operator_sdk_success() -> None:
    """Print the last line of operator-sdk's log to stderr, which scripts search for."""
    from opmkit.cli.output.server_logs import format_record

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
