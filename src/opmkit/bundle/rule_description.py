"""The metadata of a rule of validation."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from opmkit.bundle.finding import Severity


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
