"""The result of validating a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.warnings import find_warnings

if TYPE_CHECKING:
    from opmkit.index.fbc.compat import Compat
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.fbc.load import LoadResult


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


def validate(loaded: LoadResult, compat: Compat) -> ValidationResult:
    """Validate a loaded catalog by the rules of a release of Go opm."""
    errors = (*loaded.errors, *check_blobs(loaded.blobs, compat))
    return ValidationResult(errors, (*loaded.warnings, *find_warnings(loaded.blobs)))


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
