"""Patterns of file names."""

from __future__ import annotations

import pytest

from opmkit.bundle.dockerfile.context import FilePattern, has_wildcards


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "", True),
        ("*", ".hidden", True),
        ("*.yaml", "a.yaml", True),
        ("*.yaml", "a.yml", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-b-b", False),
        ("?", "é", True),
        ("?", "", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[!a]", "!", True),
        (r"[\d]", "d", True),
        (r"[\d]", "1", False),
        (r"[\]]", "]", True),
        ("[[&&a]", "&", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a.b", "axb", False),
        ("a\nb?", "a\nb\n", True),
        ("]", "]", True),
        ("*" * 100 + "z", "a" * 200, False),
        ("*a" * 50 + "b", "a" * 200, False),
    ],
)
def test_matches(pattern: str, name: str, matches: bool) -> None:
    assert FilePattern.parse(pattern).matches(name) is matches


@pytest.mark.parametrize("pattern", ["[", "[]", "[]a]", "a[b", "[^]", "\\", "a\\", "[z-a]", "[a\\"])
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(ValueError):
        FilePattern.parse(pattern)


def test_wildcards() -> None:
    assert [has_wildcards(path) for path in ("a/b.c", "a*", "a?", "[a", "a\\b", "a]")] == [False, *[True] * 4, False]
