"""Parsing and comparison of versions and version ranges."""

from __future__ import annotations

import random

import pytest

from opmkit.bundle.versions import VersionRange, strict_version, tolerant_version, version_key


@pytest.mark.parametrize("text", ["0.0.0", "1.2.3", "1.2.3-rc.1+build.5", f"{2**64 - 1}.0.0", "1.0.0+001", "1.0.0-0a"])
def test_strict_versions(text: str) -> None:
    assert str(strict_version(text)) == text


TOO_LARGE = [f"{2**64}.0.0", f"1.0.0-{2**64}", "9" * 10_000 + ".0.0", "1.0.0-" + "9" * 10_000]


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3\n", "1.2.3-é", *TOO_LARGE]
)
def test_invalid_strict_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"'"):
        strict_version(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (" v1.2 ", "1.2.0"),
        ("1", "1.0.0"),
        ("01.002.0003", "1.2.3"),
        ("v1.2.3-rc.1", "1.2.3-rc.1"),
        ("\xa00.10", "0.10.0"),
    ],
)
def test_tolerant_versions(text: str, version: str) -> None:
    assert str(tolerant_version(text)) == version


@pytest.mark.parametrize("text", ["", "1.2-rc", "vv1", "1..2", "1.2.3.4", "x"])
def test_invalid_tolerant_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|has a"):
        tolerant_version(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.0.0 <2.0.0", ["1.0.0", "2.0.0-rc.1"], ["2.0.0", "1.0.0-rc.1"]),
        ("<1.0.0 || 2.x", ["0.9.9", "2.7.0"], ["1.0.0", "3.0.0"]),
        ("!=1.2.3", ["1.2.4"], ["1.2.3", "1.2.3+build"]),
        ("> 1.0.0", ["1.0.1"], ["1.0.0"]),
        ("1.x.x", ["1.0.7"], ["1.1.0"]),
        ("<=1.2.x", ["1.2.9"], ["1.3.0"]),
        (">1.2.x", ["1.3.0"], ["1.2.9"]),
        ("^1.2.x", ["1.2.0"], ["1.2.1"]),
        ("!=1.2.x", [], ["1.1.0", "1.2.0", "1.3.0"]),
    ],
)
def test_ranges(text: str, inside: list[str], outside: list[str]) -> None:
    parsed = VersionRange.parse(text)
    assert all(strict_version(version) in parsed for version in inside)
    assert not any(strict_version(version) in parsed for version in outside)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no version"),
        ("x", "has no version"),
        ("1.0.0 ||", "between two versions"),
        ("~1.0.0", "not an operator"),
        (">=1.0", "MAJOR.MINOR.PATCH"),
        (">=1.0.0 and <2.0.0", "has no version"),
        (">1.0.0-next", "wildcard"),
        (f"<={2**64}.x", "wildcard"),
        ("<=1." + "9" * 10_000 + ".x", r"digits"),
    ],
)
def test_invalid_ranges(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        VersionRange.parse(text)


def test_empty_alternatives_and_dropped_tokens() -> None:
    gap = VersionRange.parse("1.0.0 || || 2.0.0")
    assert not gap.is_complete
    assert strict_version("3.0.0") not in gap
    assert VersionRange.parse("1.0.0 - 2.0.0").dropped == ("-",)
    assert VersionRange.parse(">=1.0.0 <2.0.0").dropped == ()


def test_spans_of_a_range() -> None:
    rng = random.Random(7)
    texts = [
        f"{rng.randint(0, 2)}.{rng.randint(0, 2)}.{rng.randint(0, 2)}{end}" for end in ("", "-rc.1") for _ in range(20)
    ]
    keys = sorted(version_key(strict_version(text)) for text in texts)
    for _ in range(300):
        terms = [f"{rng.choice(['<', '<=', '>', '>=', '=', '!='])}{rng.choice(texts)}" for _ in range(4)]
        parsed = VersionRange.parse(f"{terms[0]} {terms[1]} || {terms[2]} {terms[3]}")
        inside = [number for start, end in parsed.spans(keys) for number in range(start, end)]
        assert inside == [number for number, key in enumerate(keys) if parsed.contains_key(key)]
