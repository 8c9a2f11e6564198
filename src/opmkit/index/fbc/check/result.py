"""The result of validating a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.policy import CatalogPolicy, check_policy
from opmkit.index.fbc.check.warnings import find_warnings

if TYPE_CHECKING:
    from opmkit.index.fbc.compat import Compat
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.fbc.load import LoadResult

NO_POLICY = CatalogPolicy()


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The errors and warnings of a catalog, each package by package."""

    errors: tuple[CatalogFinding, ...]
    warnings: tuple[CatalogFinding, ...]

    @property
    def passed(self) -> bool:
        """Return whether the catalog is valid."""
        return not self.errors

    @property
    def findings(self) -> list[CatalogFinding]:
        """Return errors and warnings, sorted by file and line."""
        return sorted((*self.errors, *self.warnings), key=lambda finding: (finding.file, finding.line))

    def report(self) -> dict[str, Any]:
        """Return a JSON document: the fields that Go opm prints, and ``findings``."""
        error = {"error": {"message": "\n".join(map(str, self.errors))}} if self.errors else {}
        return {"passed": self.passed, **error, "findings": [_to_dict(finding) for finding in self.findings]}


def validate(loaded: LoadResult, compat: Compat, policy: CatalogPolicy = NO_POLICY) -> ValidationResult:
    """Validate a loaded catalog by the rules of a release of Go opm and the requirements of a policy."""
    errors = (*loaded.errors, *check_blobs(loaded.blobs, compat))
    warnings = (*loaded.warnings, *find_warnings(loaded.blobs))
    found = tuple(check_policy(loaded.blobs, policy))
    return ValidationResult(
        (*errors, *(finding for finding in found if finding.severity is Severity.ERROR)),
        (*warnings, *(finding for finding in found if finding.severity is Severity.WARNING)),
    )


def _to_dict(finding: CatalogFinding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "package": finding.package,
        "channel": finding.channel,
        "bundle": finding.bundle,
        "file": finding.file,
        "line": finding.line,
        "since": finding.since,
    }
