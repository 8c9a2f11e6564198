"""JSON reports: the format in docs/validation.md, and json-alpha1 of operator-sdk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.result import TargetResult
    from opmkit.bundle.validation.result import ValidationResult

VERSION = 1
"""Version of the format, incremented by incompatible changes."""


def report(results: Sequence[ValidationResult], fail_on: Severity, skipped: int = 0) -> dict[str, Any]:
    """Return the report in JSON types; ``skipped`` is the number of skipped tags."""
    return {
        "version": VERSION,
        "passed": all(result.passes(fail_on) for result in results),
        "errors": sum(result.count(Severity.ERROR) for result in results),
        "warnings": sum(result.count(Severity.WARNING) for result in results),
        "skipped": skipped,
        "bundles": [result.to_dict(fail_on) for result in results],
    }


def json_alpha1(result: TargetResult) -> dict[str, Any]:
    """Return the result of one bundle in the format of ``operator-sdk bundle validate -o json-alpha1``.

    ``outputs`` is None if there are no findings.
    """
    failure = [{"type": "error", "message": result.error}] if result.error else []
    outputs = [{"type": finding.severity.value, "message": finding.message} for finding in result.findings]
    return {"passed": result.passes(Severity.ERROR), "outputs": failure + outputs or None}
