"""Reports of shards: damaged ones are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.policy import Ignore, Policy
from opmkit.bundle.reports.json import extract
from opmkit.bundle.validation.cross_bundle import ComparedBundle
from opmkit.bundle.validation.result import ValidationResult
from opmkit.bundle.validation.shard_report import (
    InvalidReport,
    PlacedResult,
    ReportSettings,
    Selection,
    ShardReport,
    decode_reports,
)
from opmkit.bundle.validation.sources import SkippedTags, Source
from opmkit.core.shard import Shard


def report() -> dict[str, Any]:
    summary = ComparedBundle("./b", "demo", "demo.v1", channels=("a",))
    findings = (Finding("wrong", path=("spec", 0), rule="X"),)
    result = ValidationResult("./b", findings, "demo.v1", package="demo", summary=summary)
    policy = Policy(severities=(("X", Severity.WARNING),), ignores=(Ignore("Y", "known"),))
    settings = ReportSettings("default", "opmkit", Severity.ERROR, policy)
    placed = PlacedResult(0, Source("./b", Path("b")), result)
    return ShardReport(Shard(1, 1), Selection(1, "x", SkippedTags(0, 0)), settings, (placed,)).encode()


def test_reports_are_decoded() -> None:
    ((name, decoded),) = decode_reports([("1.json", report())])
    assert name == "1.json"
    assert decoded.encode() == report()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("targets",), []),
        (("settings", "profile"), "none"),
        (("settings", "profile"), []),
        (("settings", "compat"), "none"),
        (("settings", "severities"), [[1, None]]),
        (("settings", "ignores", 0, "rule"), 1),
        (("settings", "known"), [["a", "b", "c", "d", "e"]]),
        (("results", 0, "position"), []),
        (("results", 0, "target"), 1),
        (("results", 0, "directory"), 1),
        (("results", 0, "of_operator"), "x"),
        (("results", 0, "error"), 1),
        (("results", 0, "hint"), [1]),
        (("results", 0, "name"), None),
        (("results", 0, "package"), {}),
        (("results", 0, "findings", 0, "message"), 1),
        (("results", 0, "findings", 0, "line"), "1"),
        (("results", 0, "findings", 0, "path"), [[]]),
        (("results", 0, "summary"), [1]),
        (("results", 0, "summary", "version"), 1),
        (("results", 0, "summary", "channels"), [1]),
    ],
)
def test_damaged_reports_are_rejected(path: tuple[str | int, ...], value: Any) -> None:
    encoded: Any = report()
    parent = encoded
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    with pytest.raises(InvalidReport, match=r"^1\.json: damaged report: "):
        decode_reports([("1.json", encoded)])


def test_an_image_must_be_valid() -> None:
    encoded = report()
    encoded["results"][0] |= {"directory": None, "target": "a b"}
    with pytest.raises(InvalidReport, match=r"^1\.json: damaged report: invalid image reference 'a b'"):
        decode_reports([("1.json", encoded)])


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"<?opmkit-shard e30?>", ("junit", {})),
        (b"<?opmkit-shard e30=?>", ("junit", {})),
        (b'{"runs": [{"properties": [1]}]}', None),
        (b'{"runs": [{"properties": "x"}]}', None),
        (b'{"runs": [1]}', None),
    ],
)
def test_data_of_damaged_reports(raw: bytes, found: tuple[str, dict[str, Any]] | None) -> None:
    assert extract(raw) == found
