"""What a project makes of findings: a file with severities, ignores with their reasons, and a baseline."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.content import Content
from opmkit.bundle.document import MAX_BYTES
from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Severity
from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import Verdict

FILE_NAME = ".opm-validate.yaml"
"""Where a policy is looked for, in the working directory."""
OFF = "off"

_KEYS = ("profile", "fail-on", "severity", "ignore", "baseline", "optional", "optional-values")
_IGNORE_KEYS = ("rule", "bundle", "file", "subject", "reason")
BASELINE_VERSION = 1


class InvalidPolicy(BundleError):
    """A policy or baseline that can't be followed."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Findings to pass over, and why. ``bundle``, ``file`` and ``subject`` are patterns as shells have them."""

    rule: str
    reason: str
    bundle: str = "*"
    file: str = "*"
    subject: str = "*"

    def covers(self, verdict: Verdict, finding: Finding) -> bool:
        """Whether a finding on a bundle is meant; the bundle by its name or by how it was named."""
        return (
            fnmatchcase(finding.rule, self.rule)
            and fnmatchcase(finding.file, self.file)
            and fnmatchcase(finding.subject, self.subject)
            and any(fnmatchcase(name, self.bundle) for name in (verdict.name, verdict.target))
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts, and how much. ``severities`` are by rule, None for a rule that is off.

    ``profile``, ``fail_on``, ``optional`` and ``optional_values`` are what the flags of these names say where they are
    not given; ``baseline`` is the file of what is known already.
    """

    profile: str = ""
    fail_on: Severity | None = None
    severities: tuple[tuple[str, Severity | None], ...] = ()
    ignores: tuple[Ignore, ...] = ()
    baseline: str = ""
    optional: tuple[str, ...] = ()
    optional_values: tuple[tuple[str, str], ...] = ()

    def apply(self, verdict: Verdict) -> Verdict:
        """The verdict with the findings that count, as grave as they are here."""
        severities = dict(self.severities)
        kept = []
        for finding in verdict.findings:
            severity = severities.get(finding.rule, finding.severity)
            if severity is not None and not any(one.covers(verdict, finding) for one in self.ignores):
                kept.append(finding if severity is finding.severity else replace(finding, severity=severity))
        return replace(verdict, findings=tuple(kept))


def read_policy(path: Path, rules: Collection[str]) -> Policy:
    """Read a policy file; ``rules`` are the ids there are.

    Raises:
        InvalidPolicy: naming the line, for what is no policy: unknown keys and rules, ignores without a reason.
        StoreError: if it can't be read.
    """
    with disk_errors(path):
        raw = path.read_bytes()[: MAX_BYTES + 1]
    return _Reader(path, Content.read(raw), rules).policy()


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path
    content: Content
    rules: Collection[str]

    def policy(self) -> Policy:
        if self.content.error is not None:
            raise InvalidPolicy(self.content.error.located(str(self.path)), hint="Write it as YAML.")
        value: Any = self.content.value if self.content.value is not None else {}
        self._known(value, _KEYS, ())
        return Policy(
            profile=self._text(value, "profile"),
            fail_on=self._severity(value.get("fail-on"), ("fail-on",)) if "fail-on" in value else None,
            severities=tuple(self._severities(value.get("severity") or {})),
            ignores=tuple(self._ignores(value.get("ignore") or [])),
            baseline=self._text(value, "baseline"),
            optional=tuple(self._texts(value.get("optional") or [], ("optional",))),
            optional_values=tuple(self._pairs(value.get("optional-values") or {})),
        )

    def _severities(self, value: Any) -> Iterable[tuple[str, Severity | None]]:
        for rule, level in self._mapping(value, ("severity",)).items():
            self._rule(rule, ("severity", rule))
            # YAML reads a plain off as false
            off = level is False or level == OFF
            yield rule, None if off else self._severity(level, ("severity", rule))

    def _ignores(self, value: Any) -> Iterable[Ignore]:
        if not isinstance(value, list):
            raise self._wrong(("ignore",), "is no list", "Write a list of entries with rule and reason.")
        for number, entry in enumerate(value):
            path = ("ignore", number)
            self._known(entry, _IGNORE_KEYS, path)
            texts = {key: self._text(entry, key, path) for key in entry}
            if not texts.get("rule") or not texts.get("reason"):
                raise self._wrong(path, "lacks a rule or a reason", "Say which rule, and why it is passed over here.")
            if "*" not in texts["rule"]:
                self._rule(texts["rule"], path)
            yield Ignore(**texts)

    def _pairs(self, value: Any) -> Iterable[tuple[str, str]]:
        for name, text in self._mapping(value, ("optional-values",)).items():
            if not isinstance(text, str | int | float):
                raise self._wrong(("optional-values", name), "is no text", "Write a text.")
            yield name, str(text)

    def _texts(self, value: Any, path: tuple[str | int, ...]) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(path, "is no list of texts", "Write a list of texts.")
        return value

    def _text(self, value: Any, key: str, path: tuple[str | int, ...] = ()) -> str:
        text = value.get(key, "")
        if not isinstance(text, str):
            raise self._wrong((*path, key), "is no text", "Put it in quotes.")
        return text

    def _severity(self, value: Any, path: tuple[str | int, ...]) -> Severity:
        if value not in tuple(Severity):
            raise self._wrong(path, f"is {value!r}", "Write error or warning; a rule may also be off.")
        return Severity(value)

    def _rule(self, rule: str, path: tuple[str | int, ...]) -> None:
        if rule not in self.rules:
            near = difflib.get_close_matches(rule.upper(), self.rules, n=1)
            hint = f"did you mean {near[0]}?" if near else Hint("list all rules with {}", Operation.LIST_RULES)
            raise self._wrong(path, "names no rule", hint)

    def _mapping(self, value: Any, path: tuple[str | int, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(path, "is no mapping", "Write names and values.")
        return value

    def _known(self, value: Any, keys: Sequence[str], path: tuple[str | int, ...]) -> None:
        for key in self._mapping(value, path):
            if key not in keys:
                raise self._wrong((*path, key), "is unknown", f"There are {', '.join(keys)}.")

    def _wrong(self, path: tuple[str | int, ...], problem: str, hint: Hint | str) -> InvalidPolicy:
        line, column = self.content.locate(path)
        where = ".".join(str(part) for part in path) or "the file"
        return InvalidPolicy(f"{self.path}:{line}:{column}: {where} {problem}", hint=hint)


Known = Counter[tuple[str, str, str, str]]
"""What is known already: bundle, rule, file and subject of findings, and how many there are of each."""


def read_baseline(path: Path) -> Known:
    """Read the findings that are known; raises InvalidPolicy and StoreError."""
    with disk_errors(path):
        raw = path.read_bytes()
    try:
        value = orjson.loads(raw)
        if value["version"] != BASELINE_VERSION:
            raise ValueError
        return Counter(
            {(one["bundle"], one["rule"], one["file"], one["subject"]): int(one["count"]) for one in value["findings"]}
        )
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidPolicy(
            f"{path} is no baseline", hint=Hint("write it again with {}", Operation.WRITE_BASELINE)
        ) from error


def baseline(verdicts: Iterable[Verdict]) -> bytes:
    """The text of a baseline that knows all that was found."""
    known = Counter(_key(verdict, finding) for verdict in verdicts for finding in verdict.findings)
    findings = [
        {"bundle": bundle, "rule": rule, "file": file, "subject": subject, "count": count}
        for (bundle, rule, file, subject), count in sorted(known.items())
    ]
    value = {"version": BASELINE_VERSION, "findings": findings}
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def without_known(verdict: Verdict, known: Known) -> Verdict:
    """The verdict with the new findings alone; of several alike, as many are known as the baseline says."""
    left, new = Counter(known), []
    for finding in verdict.findings:
        key = _key(verdict, finding)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return replace(verdict, findings=tuple(new))


def _key(verdict: Verdict, finding: Finding) -> tuple[str, str, str, str]:
    return verdict.name or verdict.target, finding.rule, finding.file, finding.subject
