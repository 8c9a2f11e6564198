"""The reports for programs: our own JSON, whose form docs/validation.md tells, and operator-sdk's json-alpha1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.validation.result import ValidationResult

VERSION = 1
"""Of the form; a form that breaks its readers gets another."""


def report(verdicts: Sequence[ValidationResult], fail_on: Severity, skipped: int = 0) -> dict[str, Any]:
    """Return the verdicts, and how many tags were ``skipped``, in plain JSON types."""
    return {
        "version": VERSION,
        "passed": all(verdict.passes(fail_on) for verdict in verdicts),
        "errors": sum(verdict.count(Severity.ERROR) for verdict in verdicts),
        "warnings": sum(verdict.count(Severity.WARNING) for verdict in verdicts),
        "skipped": skipped,
        "bundles": [_bundle(verdict, fail_on) for verdict in verdicts],
    }


def _bundle(verdict: ValidationResult, fail_on: Severity) -> dict[str, Any]:
    failure = {"error": {"message": verdict.error, "advice": str(verdict.hint)}} if verdict.error else {}
    return {
        "target": verdict.target,
        "name": verdict.name,
        "package": verdict.package,
        "passed": verdict.passes(fail_on),
        **failure,
        "findings": [
            {
                "rule": finding.rule,
                "validator": finding.validator,
                "severity": finding.severity.value,
                "message": finding.message,
                "remedy": finding.hint,
                "subject": finding.subject,
                "file": finding.file,
                "line": finding.line,
                "column": finding.column,
            }
            for finding in verdict.findings
        ],
    }


def json_alpha1(verdict: ValidationResult) -> dict[str, Any]:
    """The result of one bundle as ``operator-sdk bundle validate -o json-alpha1`` prints it."""
    failure = [{"type": "error", "message": verdict.error}] if verdict.error else []
    outputs = [{"type": finding.severity.value, "message": finding.message} for finding in verdict.findings]
    outputs = failure + outputs or [{"type": "info", "message": "All validation tests have completed successfully"}]
    return {"passed": verdict.passes(Severity.ERROR), "outputs": outputs}
