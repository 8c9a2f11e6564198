"""Version ranges with the grammar of npm; the expected results are those of NpmSpec of python-semanticversion 2.10."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.npm_range import NpmRange
from opmkit.bundle.versions import strict_version

RANGES = [
    ("<1.1.0", "1.0.0 0.1.0 1.0.0+b", "1.1.0 1.1.1 1.0.0-rc.1"),
    (">=1.0.0 <1.2.0", "1.0.0 1.1.9", "1.2.0 1.1.0-rc.1 1.2.0-rc.1"),
    (">=1.0.0-0 <1.2.0", "1.0.0-rc.1 1.0.0 1.1.0", "1.1.0-rc.1"),
    ("<1.1.0-rc.2", "1.1.0-rc.2 1.0.9", "1.0.0-rc.1 1.1.0"),
    ("~1.1", "1.1.0 1.1.5", "1.2.0 1.0.9"),
    ("~1", "1.0.0 1.9.0", "2.0.0"),
    ("~1.2.0-rc.1", "1.2.0-rc.1 1.2.0", "1.2.1 1.2.0-alpha"),
    ("^1.2.3", "1.2.3 1.9.0", "2.0.0 1.2.2"),
    ("^0.2.3", "0.2.3 0.2.9", "0.3.0"),
    ("^0.0.3", "0.0.3", "0.0.4"),
    ("^0", "0.9.0", "1.0.0"),
    ("1.x", "1.0.0 1.9.9", "2.0.0 0.9.0"),
    (">1.1", "1.2.0", "1.1.5"),
    ("<=1", "1.9.9", "2.0.0"),
    ("1.0.0 - 1.2", "1.0.0 1.2.9", "1.3.0 0.9.0"),
    ("<0.2.0 || >=1.0.0", "0.1.0 1.0.0", "0.5.0"),
    ("", "0.0.0 9.9.9", "1.0.0-rc.1"),
    ("*", "0.0.0 9.9.9", "1.0.0-rc.1"),
    ("=1.0.0+b", "1.0.0+b", "1.0.0 1.0.0+c"),
    ("v1.0.0", "1.0.0 1.0.0+b", "1.0.1"),
]


@pytest.mark.parametrize(("text", "inside", "outside"), RANGES)
def test_versions_in_ranges(text: str, inside: str, outside: str) -> None:
    parsed = NpmRange.parse(text)
    assert [version for version in inside.split() if strict_version(version) not in parsed] == []
    assert [version for version in outside.split() if strict_version(version) in parsed] == []


INVALID = [
    ">= 1.0.0",
    "!1.0.0",
    "==1.0.0",
    "1.0.0.0",
    "01.0.0",
    "<x",
    "~*",
    "1.0-rc.1",
    "1.0.0-01",
    "1.0.0-a..b",
    "one",
]


@pytest.mark.parametrize("text", [*INVALID, ">=1.0.0  <2.0.0", "1.0.0 - 1.1.0 - 1.2.0", "9" * 30, "1.0.0,2.0.0"])
def test_invalid_ranges(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        NpmRange.parse(text)
