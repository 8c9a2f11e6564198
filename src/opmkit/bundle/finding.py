"""Findings of validation, and the result for one target: a bundle or a catalog."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.core.hints import Hint
from opmkit.documents.fields import FieldPath  # noqa: TC001 - read by the decoder of cached findings

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a bundle or a catalog.

    A check sets the message and the location. The rule that runs the check adds its id, validator, severity and hint.

    Attributes:
        message: The problem, without its location.
        file: Path relative to the root of the bundle or catalog, or "" if the problem is not in a file.
        path: Path from the root of the document in ``file`` to the offending value, or to the missing one.
        subject: The API, image, field or object that the finding is about, or "" for the whole.
        hint: How to solve it, as one sentence.
        line: Line in ``file``, from 1, or 0 if unknown.
        column: Column in ``line``, from 1, or 0 if unknown.
        severity: Errors make a bundle or catalog invalid.
        rule: Id of the rule, such as ``CSV-REPLACES-FORMAT``.
        validator: Name of the validator that ran the rule.
        excerpt: The offending line, truncated.
    """

    message: str
    file: str = ""
    path: FieldPath = ()
    subject: str = ""
    hint: str = ""
    line: int = 0
    column: int = 0
    severity: Severity = Severity.ERROR
    rule: str = ""
    validator: str = ""
    excerpt: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The message with its subject, if the message does not contain it."""
        return self.message

    @property
    def location(self) -> str:
        """The location as compilers write it: ``file:line:column``."""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding in JSON types, as reports contain it: without ``path`` and ``excerpt``."""
        return {
            "rule": self.rule,
            "validator": self.validator,
            "severity": self.severity.value,
            "message": self.message,
            "hint": self.hint,
            "subject": self.subject,
            "file": self.file,
            "line": self.line,
            "column": self.column,
        }

    def fails(self, fail_on: Severity) -> bool:
        """Return whether validation fails because of this finding: an error, or a warning if ``fail_on`` is WARNING."""
        return self.severity is Severity.ERROR or fail_on is not Severity.ERROR


class AllowedFinding(Struct, frozen=True):
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
        name: Name of the target itself, or "" if unknown.
        error: Why the target could not be read, or "" if it was.
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

    @property
    def located_error(self) -> str:
        """The error after the name of the target, with which many errors begin anyway."""
        is_named = self.error.startswith((f"{self.target}: ", f"{self.target} "))
        return self.error if is_named else f"{self.target}: {self.error}"

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


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """A rule of the validation of bundles or catalogs.

    Attributes:
        id: Unique among the rules, such as ``CSV-REPLACES-FORMAT``.
        validator: Name of the set of rules that it belongs to.
        summary: The problem that it finds, in one line.
        severity: Severity of its findings.
        explanation: Why this is a problem.
        hint: How to solve it, for findings without a hint.
        bad: Example that breaks the rule.
        good: The same example, corrected.
    """

    id: str
    validator: str
    summary: str
    severity: Severity = Severity.ERROR
    explanation: str = ""
    hint: str = ""
    bad: str = ""
    good: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the description in JSON types."""
        return {"id": self.id, "validator": self.validator, "severity": self.severity.value, **asdict(self)}
