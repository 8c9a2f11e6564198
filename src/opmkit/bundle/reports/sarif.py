"""SARIF 2.1.0 (OASIS) for code scanning services."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from opmkit._version import __version__
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.finding import Finding, Severity, TargetResult
    from opmkit.imagetools.reference import ImageReference

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class RuleInfo(Protocol):
    """The metadata of a rule."""

    @property
    def id(self) -> str:
        """The id of the rule."""
        ...

    @property
    def validator(self) -> str:
        """The set of rules that it belongs to."""
        ...

    @property
    def severity(self) -> Severity:
        """The severity of its findings."""
        ...

    @property
    def summary(self) -> str:
        """The problem that it finds, in one line."""
        ...

    @property
    def explanation(self) -> str:
        """The reason why this is a problem, or ""."""
        ...

    @property
    def hint(self) -> str:
        """The suggested solution, or ""."""
        ...


def report(
    results: Sequence[TargetResult], rules: Mapping[str, RuleInfo], roots: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a log with one run, the rules that have findings, and one result per finding.

    Allowed findings are suppressed results. Targets that could not be read are notifications of a failed execution.

    Args:
        results: The results.
        rules: The known rules by id.
        roots: The URIs of the targets by name, from `target_uri`; the others are directories. The URI of a file is
            its path in the target, appended to that URI.
    """
    by_target = [(result, (roots or {}).get(result.target) or _path_uri(result.target)) for result in results]
    ids = sorted({finding.rule for result in results for finding, _ in _all_findings(result)})
    failures = [{"level": "error", "message": {"text": result.located_error}} for result in results if result.error]
    run = {
        "tool": {
            "driver": {"name": "opmkit", "version": __version__, "rules": [_rule(rule_id, rules) for rule_id in ids]}
        },
        "invocations": [_invocation(results, failures)],
        "columnKind": "unicodeCodePoints",
        "results": [
            {**_result(result, finding, ids.index(finding.rule), root), **_suppression(reason)}
            for result, root in by_target
            for finding, reason in _all_findings(result)
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(results: Sequence[TargetResult], failures: list[dict[str, Any]]) -> dict[str, Any]:
    notices = [{"level": "warning", "message": {"text": notice}} for result in results for notice in result.notices]
    invocation = {"executionSuccessful": not failures, "toolExecutionNotifications": failures}
    return invocation | ({"toolConfigurationNotifications": notices} if notices else {})


def _all_findings(result: TargetResult) -> Iterator[tuple[Finding, str]]:
    """Yield the findings with the reasons why they are allowed, or "" if they are not."""
    yield from ((finding, "") for finding in result.findings)
    yield from ((allowed.finding, allowed.reason) for allowed in result.allowed)


def _suppression(reason: str) -> dict[str, Any]:
    return {"suppressions": [{"kind": "external", "status": "accepted", "justification": reason}]} if reason else {}


def _rule(rule_id: str, rules: Mapping[str, RuleInfo]) -> dict[str, Any]:
    rule = rules.get(rule_id)
    if rule is None:
        return {"id": rule_id}
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation or rule.summary},
        **({"help": {"text": rule.hint}} if rule.hint else {}),
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"validator": rule.validator},
    }


def target_uri(target: str, location: Path | ImageReference) -> str:
    """Return the URI reference of a bundle or catalog (RFC 3986).

    It is a relative path or a ``file:`` URI for a directory, ``docker://`` and the full name for an image in a
    registry, and ``TRANSPORT:`` and the percent-encoded rest for other images.
    """
    if isinstance(location, Path):
        return _path_uri(target)
    if isinstance(location, Reference):
        return f"docker://{location}"
    transport, _, name = target.partition(":")
    return f"{transport}:{_quoted(re.sub('^//+', '/', name), safe=':@')}"  # two slashes would start a host


def _path_uri(path: str) -> str:
    path = path.rstrip("/").removeprefix("./") or path[:1]
    return f"file://{_quoted(re.sub('^/+', '/', path))}" if path.startswith("/") else _quoted(path)


def _quoted(path: str, safe: str = "") -> str:
    return quote(path, safe=f"/~+={safe}", errors="surrogateescape")


def _result(result: TargetResult, finding: Finding, index: int, root: str) -> dict[str, Any]:
    hint = f" ({finding.hint})" if finding.hint else ""
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": f"{finding.text}{hint}"},
        "locations": [_location(finding, root)],
        "partialFingerprints": {"finding/v1": _fingerprint(result, finding)},
    }


def _location(finding: Finding, root: str) -> dict[str, Any]:
    directory = "" if root == "." else f"{root.rstrip('/')}/"
    uri = f"{directory}{_quoted(finding.file)}" if finding.file else root
    location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if finding.line:
        column = {"startColumn": finding.column} if finding.column else {}
        location["region"] = {"startLine": finding.line, **column}
    return {"physicalLocation": location}


def _fingerprint(result: TargetResult, finding: Finding) -> str:
    """Return an identifier of a finding that does not change when lines move."""
    parts = (result.name or result.target, finding.rule, finding.file, finding.subject, finding.excerpt)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]
