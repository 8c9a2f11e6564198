"""Rules: functions that take a bundle and yield findings, registered by id.

A new rule is one function below :func:`rule` in a module that :mod:`opmkit.bundle.validation.rule_registry` lists, and
one test. Other distributions add rules by an entry point of the group ``opmkit.rules`` that names a module with rules.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import cleandoc
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.finding import RuleDescription
from opmkit.bundle.validation.compat import ALL, Compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.finding import Finding, Severity
    from opmkit.bundle.validation.bundle_view import BundleView


Check: TypeAlias = "Callable[[BundleView], Iterable[Finding]]"


class Rule(Struct, frozen=True):
    """A check with its metadata.

    Attributes:
        id: Unique within the validator, such as ``CSV-REPLACES-FORMAT``.
        validator: Name of the set of rules that it belongs to.
        severity: Severity of its findings.
        summary: The problem that it finds, in one line.
        hint: How to solve it, for findings without a hint.
        check: Function that yields the findings.
        explanation: Why this is a problem.
        bad: Example that breaks the rule.
        good: The same example, corrected.
        compat: Compatibility modes in which the rule runs.
        variable_severity: Whether the check sets the severity of each finding; ``severity`` is then only documentation.
    """

    id: str
    validator: str
    severity: Severity
    summary: str
    hint: str
    check: Check
    explanation: str = ""
    bad: str = ""
    good: str = ""
    compat: frozenset[Compat] = ALL
    variable_severity: bool = False

    def describe(self) -> RuleDescription:
        """Return the metadata."""
        return RuleDescription(
            self.id, self.validator, self.summary, self.severity, self.explanation, self.hint, self.bad, self.good
        )

    def run(self, bundle: BundleView) -> Iterator[Finding]:
        """Yield the findings of the check, with the rule's id, validator, severity and hint."""
        return map(self.complete, self.check(bundle))

    def complete(self, finding: Finding) -> Finding:
        """Add the rule's id, validator, severity and hint to a finding of its check."""
        return replace(
            finding,
            rule=self.id,
            validator=self.validator,
            severity=finding.severity if self.variable_severity else self.severity,
            hint=finding.hint or self.hint,
        )


def rule(
    rule_id: str,
    validator: str,
    severity: Severity,
    summary: str,
    *,
    hint: str,
    bad: str = "",
    good: str = "",
    compat: frozenset[Compat] = ALL,
    variable_severity: bool = False,
) -> Callable[[Check], Rule]:
    """Return a decorator that makes a `Rule` of a check function; the function's docstring is the explanation."""

    def register(check: Check) -> Rule:
        explanation = explain(check)
        return Rule(
            rule_id, validator, severity, summary, hint, check, explanation, bad, good, compat, variable_severity
        )

    return register


def explain(check: object) -> str:
    """Return the docstring of a check as Markdown."""
    return cleandoc(check.__doc__ or "").replace("``", "`")
