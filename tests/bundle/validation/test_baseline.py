"""Baselines of known findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.policy import InvalidPolicy
from opmkit.bundle.validation.baseline import encode_baseline, exclude_known, read_baseline
from opmkit.bundle.validation.result import ValidationResult

if TYPE_CHECKING:
    from pathlib import Path

A = Finding("a", rule="CSV-A", validator="csv", subject="one", file="manifests/csv.yaml", line=3)
B = Finding("b", rule="CSV-B", validator="csv", severity=Severity.WARNING, file="manifests/csv.yaml")
C = Finding("c", rule="GP-C", validator="good-practices", severity=Severity.WARNING, subject="manager")
RESULT = ValidationResult("demo/1.0.0", (A, B, C), "demo.v1.0.0", package="demo")


def test_only_new_findings_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_bytes(encode_baseline([RESULT]))
    baseline = read_baseline(path)
    moved = replace(A, message="a, elsewhere", line=90)
    new = replace(C, subject="sidecar")
    later = ValidationResult("elsewhere", (moved, moved, B, C, new), "demo.v1.0.0", package="demo")
    assert exclude_known(later, baseline).findings == (moved, new)
    assert exclude_known(RESULT, baseline).findings == ()
    other = ValidationResult("other", (A,), "other.v1.0.0")
    assert exclude_known(other, baseline) == other


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "findings": []}', '{"version": 1, "findings": [1]}'])
def test_invalid_baselines_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(InvalidPolicy, match="is not a baseline"):
        read_baseline(path)
