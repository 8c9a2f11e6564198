"""SARIF 2.1.0 (OASIS) for code scanning services."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from opmkit._version import __version__
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.rule import Rule
    from opmkit.bundle.validation.sources import Source

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_UNREADABLE = "UNREADABLE"


def report(
    results: Sequence[ValidationResult], rules: Mapping[str, Rule], sources: Iterable[Source] = ()
) -> dict[str, Any]:
    """Return a log with one run, the rules that have findings, and one result per finding.

    The URI of a file is its path in the bundle, appended to the URI of the source. Targets without a source are
    directories. Bundles that could not be read are notifications of a failed execution.
    """
    roots = {source.target: source_uri(source) for source in sources}
    ids = sorted({finding.rule for result in results for finding in result.findings})
    failures = [
        {"level": "error", "message": {"text": f"{result.target}: {result.error}"}}
        for result in results
        if result.error
    ]
    run = {
        "tool": {
            "driver": {"name": "opmkit", "version": __version__, "rules": [_rule(rule_id, rules) for rule_id in ids]}
        },
        "invocations": [{"executionSuccessful": not failures, "toolExecutionNotifications": failures}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(result, finding, ids.index(finding.rule), roots.get(result.target) or _path_uri(result.target))
            for result in results
            for finding in result.findings
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
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"validator": rule.validator},
    }


def source_uri(source: Source) -> str:
    """Return the URI reference of a bundle (RFC 3986).

    It is a relative path or a ``file:`` URI for a directory, ``docker://`` and the full name for an image in a
    registry, and ``TRANSPORT:`` and the percent-encoded rest for other images.
    """
    if isinstance(source.location, Path):
        return _path_uri(source.target)
    if isinstance(source.location, Reference):
        return f"docker://{source.location}"
    transport, _, name = source.target.partition(":")
    return f"{transport}:{_quoted(re.sub('^//+', '/', name), safe=':@')}"  # two slashes would start a host


def _path_uri(path: str) -> str:
    path = path.rstrip("/").removeprefix("./") or path[:1]
    return f"file://{_quoted(re.sub('^/+', '/', path))}" if path.startswith("/") else _quoted(path)


def _quoted(path: str, safe: str = "") -> str:
    return quote(path, safe=f"/~+={safe}")


def _result(result: ValidationResult, finding: Finding, index: int, root: str) -> dict[str, Any]:
    hint = f" ({finding.hint})" if finding.hint else ""
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": f"{finding.message}{hint}"},
        "locations": [_location(finding, root)],
        "partialFingerprints": {"finding/v1": _fingerprint(result, finding)},
    }


def _location(finding: Finding, root: str) -> dict[str, Any]:
    directory = "" if root == "." else f"{root.rstrip('/')}/"
    uri = f"{directory}{_quoted(finding.file)}" if finding.file else root
    location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if finding.line:
        location["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
    return {"physicalLocation": location}


def _fingerprint(result: ValidationResult, finding: Finding) -> str:
    """Return an identifier of a finding that does not change when lines move."""
    parts = (result.name or result.target, finding.rule, finding.file, finding.subject, finding.excerpt)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
