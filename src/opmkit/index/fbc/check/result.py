"""The result of validating a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity, TargetResult
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.policy import CatalogPolicy, check_policy
from opmkit.index.fbc.check.warnings import find_warnings
from opmkit.index.fbc.findings import CatalogFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.index.fbc.compat import CatalogCompat
    from opmkit.index.fbc.load import LoadResult

NO_POLICY = CatalogPolicy()


@dataclass(frozen=True, slots=True)
class CatalogResult(TargetResult):
    """The findings for one catalog, sorted by file and line."""

    @property
    def passed(self) -> bool:
        """Return whether the catalog is valid."""
        return self.passes(Severity.ERROR)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def names(self, finding: Finding) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a finding: its own package, channel and bundle."""
        names = TargetResult.names(self, finding)
        if not isinstance(finding, CatalogFinding):
            return names
        return {**names, "package": (finding.package,), "channel": (finding.channel,), "bundle": (finding.bundle,)}

    def to_dict(self, fail_on: Severity = Severity.ERROR) -> dict[str, Any]:
        """Return a JSON document: the fields that Go opm prints, and further ones."""
        failures = [finding for finding in self.findings if finding.fails(fail_on)]
        messages = [*map(str, failures), *(self.notices if fail_on is Severity.WARNING else ())]
        error = {"error": {"message": "\n".join(messages)}} if messages else {}
        return {
            "passed": self.passes(fail_on),
            **error,
            "findings": [_to_dict(finding) for finding in self.findings],
            "allowed": [{**_to_dict(allowed.finding), "reason": allowed.reason} for allowed in self.allowed],
            "notices": list(self.notices),
        }


def validate(
    loaded: LoadResult,
    compat: CatalogCompat,
    policy: CatalogPolicy = NO_POLICY,
    *,
    target: str = "",
    allow_empty: bool = False,
) -> CatalogResult:
    """Validate a loaded catalog.

    Args:
        loaded: The catalog.
        compat: The release of Go opm whose rules apply.
        policy: Further requirements.
        target: Name of the catalog for messages.
        allow_empty: Accept a catalog without documents.
    """
    findings = (
        *(() if allow_empty else _check_empty(loaded)),
        *loaded.errors,
        *check_blobs(loaded.blobs, compat),
        *loaded.warnings,
        *find_warnings(loaded.blobs),
        *check_policy(loaded.blobs, policy),
    )
    order = sorted(findings, key=lambda finding: (finding.file, finding.line, finding.severity))
    return CatalogResult(target, tuple(order))


def _check_empty(loaded: LoadResult) -> Iterator[CatalogFinding]:
    """Yield an error for an index without content, since validating nothing is probably a mistake of a pipeline."""
    if not loaded.errors and not any(True for _ in loaded.blobs):
        hint = "Pass the directory of a catalog; files that .indexignore excludes are not read."
        yield CatalogFinding("no documents found", hint=hint, rule="FBC-EMPTY")


def _to_dict(finding: Finding) -> dict[str, Any]:
    catalog = finding if isinstance(finding, CatalogFinding) else CatalogFinding(finding.message)
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "package": catalog.package,
        "channel": catalog.channel,
        "bundle": catalog.bundle,
        "file": finding.file,
        "line": finding.line,
        "since": catalog.since,
    }
