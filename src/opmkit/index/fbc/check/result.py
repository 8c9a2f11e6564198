"""What is to be said of a catalog: findings, of which errors make it invalid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.warnings import find_warnings

if TYPE_CHECKING:
    from opmkit.index.fbc.compat import Compat
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.fbc.load import LoadResult


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """All that is wrong with a catalog, and all that is odd in it."""

    errors: tuple[CatalogFinding, ...]
    warnings: tuple[CatalogFinding, ...]

    @property
    def passed(self) -> bool:
        """Whether the catalog may be served."""
        return not self.errors

    @property
    def findings(self) -> list[tuple[Severity, CatalogFinding]]:
        """Both, in the order of files and lines."""
        found = [(Severity.ERROR, fault) for fault in self.errors]
        found += [(Severity.WARNING, fault) for fault in self.warnings]
        return sorted(found, key=lambda each: (each[1].location.file, each[1].location.line))

    def report(self) -> dict[str, Any]:
        """The verdict in plain JSON types: the fields that the reference prints, and ``findings``."""
        failure = {"error": {"message": "\n".join(map(str, self.errors))}} if self.errors else {}
        return {"passed": self.passed, **failure, "findings": [_finding(*each) for each in self.findings]}


def validate(loaded: LoadResult, compat: Compat) -> ValidationResult:
    """Judge what was read of a catalog by the rules of a release of the reference."""
    errors = (*loaded.faults, *check_blobs(loaded.blobs, compat))
    return ValidationResult(errors, (*loaded.duplicates, *find_warnings(loaded.blobs)))


def _finding(severity: Severity, fault: CatalogFinding) -> dict[str, Any]:
    return {
        "severity": severity.value,
        "message": fault.message,
        "remedy": fault.advice,
        "package": fault.subject.package,
        "channel": fault.subject.channel,
        "bundle": fault.subject.bundle,
        "file": fault.location.file,
        "line": fault.location.line,
        "since": fault.since,
    }
