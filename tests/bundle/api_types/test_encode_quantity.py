"""Canonical quantities: results recorded from ``k8s.io/apimachinery`` v0.33.9."""

from __future__ import annotations

import pytest

from opmkit.bundle.api_types.encode import canonical_quantity


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"), ("0.0", "0"), ("0Mi", "0"), ("1", "1"), ("0.5", "500m"), (" 100m ", "100m"), ("1000m", "1"),
        ("1500m", "1500m"), ("0.25", "250m"), ("1000", "1k"), ("1000k", "1M"), ("1024", "1024"), ("2048Mi", "2Gi"),
        ("128Mi", "128Mi"), ("0.5Gi", "512Mi"), ("1.5Ki", "1536"), ("0.0000000001", "1n"), ("100e3", "100e3"),
        ("1000e3", "1e6"), ("1E3", "1E3"), ("12E2", "1200"), ("-1000m", "-1"), ("+5", "+5"), ("00100m", "00100m"),
        ("16Ei", "9223372036854775807"), ("0.3Ki", "307200m"), ("1.1Ki", "1126400m"), ("1.", "1."), (".5", "500m"),
    ],
)  # fmt: skip
def test_canonical_quantity(text: str, written: str) -> None:
    assert canonical_quantity(text) == written
