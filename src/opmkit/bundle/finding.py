"""Findings: the problems that validation reports, for bundles and for catalogs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opmkit.documents.field_path import FieldPath


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
        file: Path relative to the root of the bundle or catalog, "" if the problem is not in a file.
        path: Path from the root of the document in ``file`` to the offending value, or to the missing one.
        subject: The API, image, field or object that the finding is about, "" for the whole.
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
