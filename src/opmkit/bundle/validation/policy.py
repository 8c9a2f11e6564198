"""Policy file of a project: severities of rules, and ignored findings."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from opmkit.bundle.content import Content
from opmkit.bundle.document import MAX_BYTES
from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Severity
from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import ValidationResult

FILE_NAME = ".opm-validate.yaml"
"""Name of the policy file in the working directory."""
OFF = "off"

_KEYS = ("profile", "fail-on", "severity", "ignore", "baseline", "optional", "optional-values")
_IGNORE_KEYS = ("rule", "bundle", "file", "subject", "reason")


class InvalidPolicy(BundleError):
    """The policy or baseline is invalid."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Findings to ignore, and the reason. All fields but the reason are shell patterns."""

    rule: str
    reason: str
    bundle: str = "*"
    file: str = "*"
    subject: str = "*"

    def covers(self, result: ValidationResult, finding: Finding) -> bool:
        """Return whether a finding is ignored; the bundle is matched by its name and by its target."""
        return (
            fnmatchcase(finding.rule, self.rule)
            and fnmatchcase(finding.file, self.file)
            and fnmatchcase(finding.subject, self.subject)
            and any(fnmatchcase(name, self.bundle) for name in (result.name, result.target))
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of a project.

    Attributes:
        profile: Default of the flag.
        fail_on: Default of the flag.
        severities: Severities by rule id, None for disabled rules.
        ignores: Findings to ignore.
        baseline: Path of the baseline file, "" for none.
        optional: Names of optional validators to run.
        optional_values: Options of optional validators.
    """

    profile: str = ""
    fail_on: Severity | None = None
    severities: tuple[tuple[str, Severity | None], ...] = ()
    ignores: tuple[Ignore, ...] = ()
    baseline: str = ""
    optional: tuple[str, ...] = ()
    optional_values: tuple[tuple[str, str], ...] = ()

    def apply(self, result: ValidationResult) -> ValidationResult:
        """Return the result without ignored findings, and with the severities of the policy."""
        severities = dict(self.severities)
        findings = []
        for finding in result.findings:
            severity = severities.get(finding.rule, finding.severity)
            if severity is not None and not any(ignore.covers(result, finding) for ignore in self.ignores):
                findings.append(finding if severity is finding.severity else replace(finding, severity=severity))
        return replace(result, findings=tuple(findings))


def read_policy(path: Path, rules: Collection[str]) -> Policy:
    """Parse a policy file; ``rules`` are the known ids.

    Raises:
        InvalidPolicy: with the line, for unknown keys and rules, and for ignores without a reason.
        StoreError: if the file cannot be read.
    """
    with disk_errors(path):
        raw = path.read_bytes()[: MAX_BYTES + 1]
    return _Parser(path, Content.read(raw), rules).policy()


@dataclass(frozen=True, slots=True)
class _Parser:
    path: Path
    content: Content
    rules: Collection[str]

    def policy(self) -> Policy:
        if self.content.error is not None:
            raise InvalidPolicy(self.content.error.located(str(self.path)), hint="correct the YAML")
        value: Any = self.content.value if self.content.value is not None else {}
        self._check_keys(value, _KEYS, ())
        return Policy(
            profile=self._text(value, "profile"),
            fail_on=self._severity(value.get("fail-on"), ("fail-on",)) if "fail-on" in value else None,
            severities=tuple(self._severities(value.get("severity") or {})),
            ignores=tuple(self._ignores(value.get("ignore") or [])),
            baseline=self._text(value, "baseline"),
            optional=tuple(self._strings(value.get("optional") or [], ("optional",))),
            optional_values=tuple(self._pairs(value.get("optional-values") or {})),
        )

    def _severities(self, value: Any) -> Iterable[tuple[str, Severity | None]]:
        for rule, level in self._mapping(value, ("severity",)).items():
            self._check_rule(rule, ("severity", rule))
            off = level is False or level == OFF  # a plain off is false in YAML
            yield rule, None if off else self._severity(level, ("severity", rule))

    def _ignores(self, value: Any) -> Iterable[Ignore]:
        if not isinstance(value, list):
            raise self._invalid(("ignore",), "is not a list", "write a list of entries with rule and reason")
        for number, entry in enumerate(value):
            path = ("ignore", number)
            self._check_keys(entry, _IGNORE_KEYS, path)
            texts = {key: self._text(entry, key, path) for key in entry}
            if not texts.get("rule") or not texts.get("reason"):
                raise self._invalid(path, "has no rule or no reason", "set the rule and the reason to ignore it")
            if "*" not in texts["rule"]:
                self._check_rule(texts["rule"], path)
            yield Ignore(**texts)

    def _pairs(self, value: Any) -> Iterable[tuple[str, str]]:
        for name, text in self._mapping(value, ("optional-values",)).items():
            if not isinstance(text, str | int | float):
                raise self._invalid(("optional-values", name), "is not a string", "write a string")
            yield name, str(text)

    def _strings(self, value: Any, path: FieldPath) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._invalid(path, "is not a list of strings", "write a list of strings")
        return value

    def _text(self, value: Any, key: str, path: FieldPath = ()) -> str:
        text = value.get(key, "")
        if not isinstance(text, str):
            raise self._invalid((*path, key), "is not a string", "put it in quotes")
        return text

    def _severity(self, value: Any, path: FieldPath) -> Severity:
        if value not in tuple(Severity):
            raise self._invalid(
                path, f"has the invalid severity {value!r}", "write error or warning, or off for a rule"
            )
        return Severity(value)

    def _check_rule(self, rule: str, path: FieldPath) -> None:
        if rule not in self.rules:
            near = difflib.get_close_matches(rule.upper(), self.rules, n=1)
            hint = f"did you mean {near[0]}?" if near else Hint("list all rules with {}", Operation.LIST_RULES)
            raise self._invalid(path, "is not a known rule", hint)

    def _mapping(self, value: Any, path: FieldPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._invalid(path, "is not a mapping", "write names and values")
        return value

    def _check_keys(self, value: Any, keys: Sequence[str], path: FieldPath) -> None:
        for key in self._mapping(value, path):
            if key not in keys:
                raise self._invalid((*path, key), "is an unknown key", f"use one of {', '.join(keys)}")

    def _invalid(self, path: FieldPath, problem: str, hint: Hint | str) -> InvalidPolicy:
        line, column = self.content.locate(path)
        where = ".".join(str(part) for part in path) or "the file"
        return InvalidPolicy(f"{self.path}:{line}:{column}: {where} {problem}", hint=hint)
