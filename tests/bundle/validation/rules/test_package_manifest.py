"""Rules of the validator ``packagemanifest``."""

from __future__ import annotations

import pytest

from tests.kit.validation import findings, view

GOOD = """\
packageName: demo
defaultChannel: stable
channels:
- name: stable
  currentCSV: demo.v1.0.0
- name: beta
  currentCSV: demo.v2.0.0
"""


def check(files: dict[str, str]) -> list[tuple[str, str]]:
    return [(finding.rule, finding.location) for finding in findings(view(files, bare=True), "packagemanifest")]


def test_a_valid_package_has_no_findings() -> None:
    csv = "kind: ClusterServiceVersion\nspec: {}\n"
    assert check({"demo.package.yaml": GOOD, "1.0.0/csv.yaml": csv, ".git/config": "text", "ci.yaml": "# none\n"}) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("packageName: demo", "packageName: ''", [("PKG-NAME", 1)]),
        ("packageName: demo\n", "", [("PKG-NAME", 1)]),
        ("channels:", "channels: []\nother:", [("PKG-CHANNELS", 3)]),
        ("defaultChannel: stable", "defaultChannel: ''", [("PKG-DEFAULT-EMPTY", 3)]),
        ("defaultChannel: stable", "defaultChannel: alpha", [("PKG-DEFAULT-UNKNOWN", 2)]),
        ("- name: beta\n ", "-", [("PKG-CHANNEL-NAME", 6)]),
        ("  currentCSV: demo.v2.0.0", "", [("PKG-CHANNEL-CSV", 6)]),
        ("name: beta", "name: stable", [("PKG-CHANNEL-DUPLICATE", 6)]),
        ("packageName: demo", "packageName: [demo]", [("LOAD-PACKAGE-DECODE", 1)]),
        ("packageName: demo", "packageName: demo: x", [("LOAD-PACKAGE-DECODE", 1)]),
    ],
)
def test_invalid_manifests(before: str, after: str, expected: list[tuple[str, int]]) -> None:
    found = findings(view({"package.yaml": GOOD.replace(before, after)}, bare=True), "packagemanifest")
    assert [(finding.rule, finding.line) for finding in found] == expected


def test_several_packages() -> None:
    found = check({"a.yaml": GOOD, "below/b.yaml": GOOD, "README": "text"})
    assert found == [("LOAD-PACKAGE-DECODE", "README:1:1"), ("LOAD-MULTIPLE-PACKAGE", "below/b.yaml:1:1")]
