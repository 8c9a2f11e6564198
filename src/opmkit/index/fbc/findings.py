"""Findings of catalog validation, and the error that lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeVar

from opmkit.bundle.finding import Finding, Severity
from opmkit.core.hints import Hint
from opmkit.index.errors import InvalidCatalog
from opmkit.index.hint_terms import IndexOperation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.fbc.blobs import SourceLocation

AnyFinding = TypeVar("AnyFinding", bound=Finding)


@dataclass(frozen=True, slots=True)
class CatalogFinding(Finding):
    """A problem in a file-based catalog; its subject is made of the package, channel and bundle.

    Attributes:
        package: Name of the package that the finding is about, or "" if it is about the file.
        channel: Name of the channel, if any.
        bundle: Name of the bundle or of the entry of the channel, if any.
        since: Release of Go opm that introduced the rule, or "" if all supported releases have it.
    """

    package: str = ""
    channel: str = ""
    bundle: str = ""
    since: str = ""

    def __post_init__(self) -> None:
        """Set the subject: ``package "a", channel "b"``."""
        parts = (("package", self.package), ("channel", self.channel), ("bundle", self.bundle))
        object.__setattr__(self, "subject", ", ".join(f'{kind} "{name}"' for kind, name in parts if name))

    @property
    def text(self) -> str:
        """The message with its subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    def __str__(self) -> str:
        """Return the finding in one line."""
        return f"{self.location}: {self.text}" if self.location else self.text

    def at(self, location: SourceLocation) -> Self:
        """Return the finding with the file and line of a blob."""
        return replace(self, file=location.file, line=location.line)


def group_findings(findings: Iterable[AnyFinding]) -> list[list[AnyFinding]]:
    """Group findings with the same message about different channels and bundles of a package; the first one leads."""
    groups: dict[tuple[Severity, str, str, str], list[AnyFinding]] = {}
    for finding in findings:
        package = finding.package if isinstance(finding, CatalogFinding) else ""
        key = (finding.severity, finding.rule, finding.message, package)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def raise_findings(findings: Iterable[CatalogFinding]) -> None:
    """Raise InvalidCatalog with all findings, if there are any."""
    found = list(findings)
    if found:
        hint = next((finding.hint for finding in found if finding.hint), "")
        first, *others = map(str, found)
        default = Hint("list all findings with {}", IndexOperation.VALIDATE_CATALOG)
        raise InvalidCatalog(first, details=others, hint=hint or default)
