"""JSON reports: the format in docs/validation.md, and json-alpha1 of operator-sdk."""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.bundle.finding import TargetResult
    from opmkit.bundle.validation.result import ValidationResult


VERSION = 1
"""Version of the format, incremented by incompatible changes."""


def report(results: Sequence[ValidationResult], fail_on: Severity, skipped: int = 0) -> dict[str, Any]:
    """Return the report in JSON types; ``skipped`` is the number of skipped tags."""
    return {
        "version": VERSION,
        "passed": all(result.passes(fail_on) for result in results),
        "errors": sum(result.count(Severity.ERROR) for result in results),
        "warnings": sum(result.count(Severity.WARNING) for result in results),
        "skipped": skipped,
        "bundles": [result.to_dict(fail_on) for result in results],
    }


def json_alpha1(result: TargetResult) -> dict[str, Any]:
    """Return the result of one bundle in the format of ``operator-sdk bundle validate -o json-alpha1``.

    ``outputs`` is None if there are no findings.
    """
    failure = [{"type": "error", "message": result.error}] if result.error else []
    outputs = [{"type": finding.severity.value, "message": finding.message} for finding in result.findings]
    return {"passed": result.passes(Severity.ERROR), "outputs": failure + outputs or None}


SHARD_KEY = "shard"
"""Member of a JSON report with the data."""
_SARIF_PROPERTY = "opmkit/shard"
_INSTRUCTION = "opmkit-shard"
_JUNIT = rb"<\?opmkit-shard ([A-Za-z0-9+/=]+)\?>"
_JUNIT_ROOT = r"(<testsuites\b[^>]*?)(/?)>"


def add_to_sarif(log: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a SARIF log with the data in the property bag of its run."""
    (run,) = log["runs"]
    return {**log, "runs": [{**run, "properties": {_SARIF_PROPERTY: data}}]}


def add_to_junit(document: str, data: Mapping[str, Any]) -> str:
    """Return a JUnit document with the data in a processing instruction, which other readers ignore."""
    import orjson  # slow to import: not needed for other reports

    encoded = b2a_base64(orjson.dumps(data), newline=False).decode()

    def insert(root: re.Match[str]) -> str:
        instruction = f"<?{_INSTRUCTION} {encoded}?>"
        return f"{root[1]}>\n  {instruction}" + ("\n</testsuites>" if root[2] else "")

    return re.sub(_JUNIT_ROOT, insert, document, count=1)


def extract(raw: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the format of a report (``json``, ``sarif`` or ``junit``) and the data, None if there is none."""
    if raw.lstrip().startswith(b"<"):
        match = re.search(_JUNIT, raw)
        return ("junit", _mapping(_decode_base64(match[1]))) if match else None
    value = _mapping(raw)
    data: Any = value.get(SHARD_KEY)
    if isinstance(data, dict):
        return "json", data
    runs = value.get("runs")
    if isinstance(runs, list) and runs and isinstance(runs[0], dict):
        properties = runs[0].get("properties")
        data = properties.get(_SARIF_PROPERTY) if isinstance(properties, dict) else None
    return ("sarif", data) if isinstance(data, dict) else None


def _decode_base64(text: bytes) -> bytes:
    try:
        return a2b_base64(text)
    except ValueError:
        return b""


def _mapping(raw: bytes) -> dict[str, Any]:
    import orjson

    try:
        value = orjson.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
