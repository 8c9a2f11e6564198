"""The result of validating one bundle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding, Severity
    from opmkit.bundle.validation.cross_bundle import BundleSummary


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings for one bundle, or the error that prevented its validation.

    Attributes:
        target: Name of the bundle on the command line.
        findings: Problems of the bundle.
        name: Name of the ClusterServiceVersion, "" if absent.
        package: Package in the annotations, "" if absent.
        summary: Fields for cross-bundle rules.
        error: Why the bundle could not be read, "" if it was.
        hint: How to solve the error.
    """

    target: str
    findings: tuple[Finding, ...] = ()
    name: str = ""
    package: str = ""
    summary: BundleSummary | None = None
    error: str = ""
    hint: Hint = field(default_factory=Hint)

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def passes(self, fail_on: Severity) -> bool:
        """Return whether the bundle was read and has no finding of at least this severity."""
        return not self.error and not any(finding.fails(fail_on) for finding in self.findings)
