"""Releases of Go opm to match, and the changes between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.compat import NEWEST_MINOR, OLDEST_MINOR, CatalogCompat, ReleaseChange


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("newest", 73),
        ("1.73", 73),
        ("1.39", 39),
        ("v1.39.0", 39),
        ("1.26.5", 26),
        ("opm-1.26", 26),
        ("opm-1.47.0", 47),
    ],
)
def test_releases_are_named_by_version(text: str, minor: int) -> None:
    assert CatalogCompat.parse(text) == CatalogCompat(minor)
    assert CatalogCompat.parse(str(CatalogCompat(minor))) == CatalogCompat(minor)


def test_the_version_is_that_of_the_last_patch_release() -> None:
    assert [CatalogCompat(minor).version for minor in (26, 39, 43)] == ["v1.26.5", "v1.39.0", "v1.43.1"]


@pytest.mark.parametrize("text", ["", "1", "1.25", "1.74", "1.39.x", "2.0", "v1.2600", "1.-39", " 1.39", "latest"])
def test_unknown_releases_are_errors_that_name_the_known_ones(text: str) -> None:
    with pytest.raises(CatalogError, match="unknown release of Go opm") as caught:
        CatalogCompat.parse(text)
    assert "from 1.26 to 1.73, or newest" in str(caught.value.hint)


def test_changes_apply_from_their_release_on() -> None:
    assert not CatalogCompat(27).has(ReleaseChange.CSV_METADATA)
    assert CatalogCompat(28).has(ReleaseChange.CSV_METADATA)
    assert all(CatalogCompat.NEWEST.has(change) for change in ReleaseChange)
    assert not any(CatalogCompat.OPM_1_26.has(change) for change in ReleaseChange)


def test_changes_are_sorted_by_release() -> None:
    minors = [change.minor for change in ReleaseChange]
    assert minors == sorted(minors)
    assert minors[0] > OLDEST_MINOR
    assert minors[-1] <= NEWEST_MINOR
    assert all(change.description.endswith(".") for change in ReleaseChange)


def test_rules_apply_from_their_release_on() -> None:
    assert CatalogCompat.OPM_1_26.has_rule("")
    assert not CatalogCompat(40).has_rule("1.41")
    assert CatalogCompat(41).has_rule("1.41")


def test_the_documentation_lists_all_changes() -> None:
    text = (Path(__file__).parents[3] / "docs" / "compat.md").read_text()
    section = text.split("## Changes between releases\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| 1.")]
    assert rows == [f"| 1.{change.minor} | {change.description} |" for change in ReleaseChange]
