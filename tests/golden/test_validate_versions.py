"""Parsing of versions and ranges compared with recorded results of github.com/blang/semver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.versions import VersionRange, strict_version, tolerant_version
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_shared


def _lines() -> list[dict[str, Any]]:
    path = SHARED / "golden" / "validate-rules" / "semver.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def _text(read: Callable[[str], object], text: str) -> str:
    try:
        return str(read(text))
    except ValueError:
        return ""


@pytest.mark.parametrize("line", _lines(), ids=lambda line: repr(line["expr"]))
def test_versions_and_ranges_are_read_as_recorded(line: dict[str, Any]) -> None:
    text = line["expr"]
    assert _text(strict_version, text) == line["parse"]
    assert _text(tolerant_version, text) == line["tolerant"]
    try:
        wanted = VersionRange.parse(text)
    except ValueError:
        assert not line["range"]
        return
    assert line["range"]
    assert wanted.is_complete == ("rangePanic" not in line)
    if wanted.is_complete:
        assert {version: strict_version(version) in wanted for version in line["matches"]} == line["matches"]
    else:
        assert strict_version("9.9.9") not in wanted
