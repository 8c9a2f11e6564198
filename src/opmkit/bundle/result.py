"""The result of validating one target: a bundle or a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.finding import Finding


@dataclass(frozen=True, slots=True)
class AllowedFinding:
    """A finding that a policy allows, and the reason."""

    finding: Finding
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the finding and the reason in JSON types."""
        return {**self.finding.to_dict(), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class TargetResult:
    """The findings for one target, or the error that prevented its validation.

    Attributes:
        target: Name of the target on the command line.
        findings: Problems of the target.
        name: Name of the target itself, "" if unknown.
        error: Why the target could not be read, "" if it was.
        hint: How to solve the error.
        allowed: Findings that the policy allows.
        notices: Warnings about the validation itself, such as entries of the policy that allow nothing.
    """

    target: str
    findings: tuple[Finding, ...] = ()
    name: str = ""
    error: str = ""
    hint: Hint = field(default_factory=Hint)
    allowed: tuple[AllowedFinding, ...] = ()
    notices: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def passes(self, fail_on: Severity) -> bool:
        """Return whether the target was read and has no finding of at least this severity; notices are warnings."""
        if self.error or (self.notices and fail_on is Severity.WARNING):
            return False
        return not any(finding.fails(fail_on) for finding in self.findings)

    def names(self, finding: Finding) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a finding that the patterns of a policy are compared with, by key of the policy."""
        return {
            "rule": (finding.rule,),
            "target": (self.target,),
            "bundle": (self.name, self.target),
            "package": ("",),
            "channel": ("",),
            "file": (finding.file,),
            "subject": (finding.subject,),
        }
