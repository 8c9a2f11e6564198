"""The result of validating one bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.result import TargetResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.cross_bundle import BundleSummary


@dataclass(frozen=True, slots=True)
class ValidationResult(TargetResult):
    """The findings for one bundle, or the error that prevented its validation.

    Attributes:
        target: Name of the bundle on the command line.
        findings: Problems of the bundle.
        name: Name of the ClusterServiceVersion, "" if absent.
        error: Why the bundle could not be read, "" if it was.
        hint: How to solve the error.
        allowed: Findings that the policy allows.
        notices: Warnings about the validation itself.
        package: Package in the annotations, "" if absent.
        summary: Fields for cross-bundle rules.
    """

    package: str = ""
    summary: BundleSummary | None = None

    def names(self, finding: Finding) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a finding; the bundle is matched by its name and by its target."""
        return {**TargetResult.names(self, finding), "package": (self.package,)}
