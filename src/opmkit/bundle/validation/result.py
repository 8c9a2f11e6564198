"""The result of validating one bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity, TargetResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.cross_bundle import ComparedBundle


@dataclass(frozen=True, slots=True)
class ValidationResult(TargetResult):
    """The findings for one bundle, or the error that prevented its validation.

    Attributes:
        target: Name of the bundle on the command line.
        findings: Problems of the bundle.
        name: Name of the ClusterServiceVersion, or "" if absent.
        error: Why the bundle could not be read, or "" if it was.
        hint: How to solve the error.
        allowed: Findings that the policy allows.
        notices: Warnings about the validation itself.
        package: Package in the annotations, or "" if absent.
        summary: Fields for cross-bundle rules.
    """

    package: str = ""
    summary: ComparedBundle | None = None

    def to_dict(self, fail_on: Severity = Severity.ERROR) -> dict[str, Any]:
        """Return the result in JSON types, as reports list it under ``bundles``.

        Args:
            fail_on: The lowest severity of findings with which ``passed`` is false.
        """
        failure = {"error": {"message": self.error, "hint": str(self.hint)}} if self.error else {}
        return {
            "target": self.target,
            "name": self.name,
            "package": self.package,
            "passed": self.passes(fail_on),
            **failure,
            "findings": [finding.to_dict() for finding in self.findings],
            "allowed": [allowed.to_dict() for allowed in self.allowed],
        }

    def names(self, finding: Finding) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a finding; the bundle is matched by its name and by its target."""
        return {**TargetResult.names(self, finding), "package": (self.package,)}
