"""Baselines: files with known findings, which are not reported again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.hint_terms import BundleOperation
from opmkit.bundle.policy import InvalidPolicy
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import ValidationResult

FORMAT_VERSION = 1
MAX_BYTES = 64 << 20
"""Maximum size of a baseline; a finding has about 200 bytes."""

Baseline: TypeAlias = Counter[tuple[str, str, str, str]]
"""Number of known findings per bundle, rule, file and subject."""


def read_baseline(path: Path, *, regular: bool = False) -> Baseline:
    """Read a baseline, see `read_limited` for ``regular``.

    Raises:
        InvalidPolicy: The file is not a baseline.
        ImageToolsError: The file cannot be read, or is too large.
    """
    import orjson  # slow to import: not needed without a baseline

    with disk_errors(path):
        raw = read_limited(path, MAX_BYTES, regular=regular)
    try:
        value = orjson.loads(raw)
        if value["version"] != FORMAT_VERSION:
            raise ValueError(value["version"])
        return Counter(
            {
                (entry["bundle"], entry["rule"], entry["file"], entry["subject"]): int(entry["count"])
                for entry in value["findings"]
            }
        )
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidPolicy(
            f"{path} is not a baseline", hint=Hint("write it again with {}", BundleOperation.WRITE_BASELINE)
        ) from error


def encode_baseline(results: Iterable[ValidationResult]) -> bytes:
    """Return the content of a baseline file with all findings of the results."""
    baseline = Counter(_key(result, finding) for result in results for finding in result.findings)
    findings = [
        {"bundle": bundle, "rule": rule, "file": file, "subject": subject, "count": count}
        for (bundle, rule, file, subject), count in sorted(baseline.items())
    ]
    value = {"version": FORMAT_VERSION, "findings": findings}
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def exclude_known(result: ValidationResult, baseline: Baseline) -> ValidationResult:
    """Return the result without the findings in the baseline, each as often as it is there."""
    remaining, new = Counter(baseline), []
    for finding in result.findings:
        key = _key(result, finding)
        if remaining[key] > 0:
            remaining[key] -= 1
        else:
            new.append(finding)
    return replace(result, findings=tuple(new))


def _key(result: ValidationResult, finding: Finding) -> tuple[str, str, str, str]:
    return result.name or result.target, finding.rule, finding.file, finding.subject
