"""What validation says: findings, and how grave they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a bundle.

    ``subject`` is what it is about, such as an API, an image or a field, "" for the whole. ``file`` is relative to the
    bundle's root, "" where no file is at fault; ``line`` and ``column`` count from 1, and are 0 where not known.
    ``excerpt`` is the offending line, shortened if it is long.
    """

    rule: str
    validator: str
    severity: Severity
    message: str
    remedy: str = ""
    subject: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    excerpt: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """Where it is, as compilers write it: ``file:line:column``."""
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])

    def fails(self, fail_on: Severity) -> bool:
        """Return whether validation fails by this finding: an error always does, a warning where ``fail_on`` is one."""
        return self.severity is Severity.ERROR or fail_on is not Severity.ERROR
