"""SARIF 2.1.0 (OASIS), which code scanning services read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from opmkit import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.bundle.validation.finding import Finding
    from opmkit.bundle.validation.rule import Rule
    from opmkit.bundle.validation.verdict import Verdict

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_UNREADABLE = "UNREADABLE"


def report(verdicts: Sequence[Verdict], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """One run with the rules that found something, and a result a finding.

    A file is named by its path from the root of the bundle, behind the directory or reference that the bundle was named
    by; a bundle that could not be read is a notification of failed execution.
    """
    ids = sorted({finding.rule for verdict in verdicts for finding in verdict.findings})
    failures = [
        {"level": "error", "message": {"text": f"{verdict.target}: {verdict.error}"}}
        for verdict in verdicts
        if verdict.error
    ]
    run = {
        "tool": {"driver": {"name": "opmkit", "version": __version__, "rules": [_rule(one, rules) for one in ids]}},
        "invocations": [{"executionSuccessful": not failures, "toolExecutionNotifications": failures}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(verdict, finding, ids.index(finding.rule)) for verdict in verdicts for finding in verdict.findings
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule_id: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    rule = rules.get(rule_id)
    if rule is None:
        return {"id": rule_id}
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation or rule.summary},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"validator": rule.validator},
    }


def _result(verdict: Verdict, finding: Finding, index: int) -> dict[str, Any]:
    hint = f" ({finding.remedy})" if finding.remedy else ""
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": f"{finding.message}{hint}"},
        "locations": [_location(verdict, finding)],
        "partialFingerprints": {"finding/v1": _fingerprint(verdict, finding)},
    }


def _location(verdict: Verdict, finding: Finding) -> dict[str, Any]:
    uri = quote("/".join(part for part in (verdict.target.rstrip("/"), finding.file) if part), safe="/@:._-+~=")
    place: dict[str, Any] = {"artifactLocation": {"uri": uri.removeprefix("./")}}
    if finding.line:
        place["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
    return {"physicalLocation": place}


def _fingerprint(verdict: Verdict, finding: Finding) -> str:
    """What a finding is known by when lines move."""
    parts = (verdict.name or verdict.target, finding.rule, finding.file, finding.subject, finding.excerpt)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
