"""What becomes of a bundle under validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint

if TYPE_CHECKING:
    from opmkit.bundle.finding import Finding, Severity
    from opmkit.bundle.validation.cross_bundle import Summary


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings on one bundle, or why it could not be looked at.

    ``target`` is how it was named. ``name`` and ``package`` are what the bundle says of itself, "" where it does not;
    ``summary`` is what counts of it beside other bundles. ``error`` and ``hint`` tell what kept it from being read.
    """

    target: str
    findings: tuple[Finding, ...] = ()
    name: str = ""
    package: str = ""
    summary: Summary | None = None
    error: str = ""
    hint: Hint = field(default_factory=Hint)

    def count(self, severity: Severity) -> int:
        """How many findings are of that severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def passes(self, fail_on: Severity) -> bool:
        """Whether it could be read, and nothing as grave as that was found."""
        return not self.error and not any(finding.fails(fail_on) for finding in self.findings)
