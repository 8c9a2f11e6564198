"""Output of ``opm bundle validate``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.cli.output.console import format_count, print_commands, print_json, print_line, print_text
from opmkit.cli.output.errors import print_error, print_to_stderr
from opmkit.cli.output.streams import print_styled
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import Severity, ValidationReport, ValidationResult


class ReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    JSON_ALPHA1 = "json-alpha1"
    PREFLIGHT = "preflight"


OF_ONE_BUNDLE = (ReportFormat.JSON_ALPHA1, ReportFormat.PREFLIGHT)
"""Formats of other programs, which have the result of a single bundle."""

_MAX_NAMED = 3
OPERATOR_SDK = "operator-sdk"
"""The profile with the rules of operator-sdk."""


def print_report(report: ValidationReport, report_format: ReportFormat, go_tool: str | None = None) -> None:
    """Print the report and the last line on stderr.

    Args:
        report: The report to print.
        report_format: The format of the report.
        go_tool: The container tool in the last line if that is to be Go opm's.
    """
    _print_results(report, report_format)
    if go_tool is not None:
        print_go_result(report[-1], go_tool, report.fail_on)
    elif report.failed:
        print_first_failure(report.failed, report.fail_on)
    elif report.settings.profile == OPERATOR_SDK:
        print_operator_sdk_success()


def _print_results(report: ValidationReport, report_format: ReportFormat) -> None:
    lists_skipped = report_format in (ReportFormat.TEXT, ReportFormat.JSON)
    if report.skipped.total and not lists_skipped:
        print_to_stderr(f"skipped {report.skipped}")
    match report_format:
        case ReportFormat.TEXT:
            print_styled(report.text_lines())
        case ReportFormat.JSON:
            print_json(report.to_dict())
        case ReportFormat.SARIF:
            print_json(report.to_sarif())
        case ReportFormat.JUNIT:
            print_text(report.to_junit().removesuffix("\n"))
        case ReportFormat.GITHUB:
            print_commands(report.github_lines())
        case ReportFormat.MARKDOWN:
            print_text(report.to_markdown())
        case ReportFormat.JSON_ALPHA1 | ReportFormat.PREFLIGHT:
            is_preflight = report_format is ReportFormat.PREFLIGHT
            print_json(report.to_preflight() if is_preflight else report.to_json_alpha1())


def print_go_result(result: ValidationResult, tool: str, fail_on: Severity) -> None:
    """Print the last line of Go opm's log to stderr, which scripts search for."""
    if result.passes(fail_on):
        from opmkit.cli.output.server_logs import format_record

        success = "All validation tests have been completed successfully"
        print_to_stderr(format_record("info", success, {"container-tool": tool}))
        return
    messages = [finding.message for finding in result.findings] or [result.error]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    print_error(OpmkitError(f"Bundle validation errors: {messages[0]}{more}"))


def print_operator_sdk_log(report: ValidationReport) -> None:
    """Print the findings as log lines on stdout, as operator-sdk does.

    Makefiles search stdout for ``warning``, so nothing else is printed there.
    """
    from opmkit.cli.output.server_logs import format_record

    for result in report:
        if result.error:
            print_line(format_record("error", result.error, {}))
        for finding in result.findings:
            location = f"{finding.location}: " if finding.file else ""
            print_line(format_record(finding.severity.value, f"{location}{finding.message}", {}))
    if report.passed:
        print_operator_sdk_success()


def print_operator_sdk_success() -> None:
    """Print the last line of operator-sdk's log to stderr, which scripts search for."""
    from opmkit.cli.output.server_logs import format_record

    print_to_stderr(format_record("info", "All validation tests have completed successfully", {}))


def print_first_failure(failed: Sequence[ValidationResult], fail_on: Severity) -> None:
    """Print the first finding that makes the command fail to stderr, as callers expect an ``Error:`` line.

    It also names the other bundles that fail, or says how many they are.
    """
    first, *others = failed
    message = first.located_error
    if not first.error:
        findings = [finding for finding in first.findings if finding.fails(fail_on)]
        location = f"{findings[0].location}: " if findings[0].file else ""
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        message = f"{first.target}: invalid bundle: {location}{findings[0].message}{more}"
    if others:
        names = f": {', '.join(each.target for each in others)}" if len(others) <= _MAX_NAMED else ""
        message = f"{message}; {format_count(len(others), 'other bundle')} failed{names}"
    print_error(OpmkitError(message))
