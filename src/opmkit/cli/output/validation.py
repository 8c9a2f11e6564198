"""Output of ``opm bundle validate``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.cli.output.console import print_commands, print_json, print_line, print_text
from opmkit.cli.output.errors import print_error, print_to_stderr
from opmkit.cli.output.streams import print_styled
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
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
        print_first_failure(report.failed[0], report.fail_on)
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


def print_first_failure(failed: ValidationResult, fail_on: Severity) -> None:
    """Print the first finding that makes the command fail to stderr, as callers expect an ``Error:`` line."""
    message = failed.located_error
    if not failed.error:
        first = next(finding for finding in failed.findings if finding.fails(fail_on))
        others = sum(finding.fails(fail_on) for finding in failed.findings) - 1
        location = f"{first.location}: " if first.file else ""
        others_noted = f" (and {others} more)" if others else ""
        message = f"{failed.target}: invalid bundle: {location}{first.message}{others_noted}"
    print_error(OpmkitError(message))
