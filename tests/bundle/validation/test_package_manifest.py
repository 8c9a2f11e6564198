"""The rules about package manifests: each fires with its place."""

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


def told(files: dict[str, str]) -> list[tuple[str, str]]:
    return [(one.rule, one.location) for one in findings(view(files, bare=True), "packagemanifest")]


def test_a_sound_package_passes() -> None:
    csv = "kind: ClusterServiceVersion\nspec: {}\n"
    assert told({"demo.package.yaml": GOOD, "1.0.0/csv.yaml": csv, ".git/config": "text", "ci.yaml": "# none\n"}) == []


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
def test_faults_of_the_manifest(before: str, after: str, expected: list[tuple[str, int]]) -> None:
    found = findings(view({"package.yaml": GOOD.replace(before, after)}, bare=True), "packagemanifest")
    assert [(one.rule, one.line) for one in found] == expected


def test_one_package_alone() -> None:
    found = told({"a.yaml": GOOD, "below/b.yaml": GOOD, "README": "text"})
    assert found == [("LOAD-PACKAGE-DECODE", "README:1:1"), ("LOAD-MULTIPLE-PACKAGE", "below/b.yaml:1:1")]
