"""Patterns of images, compared with ``re``, and those for which it takes very long."""

from __future__ import annotations

import random
import re

import pytest

from opmkit.supply.mirror.image_set import BlockedImages
from opmkit.supply.mirror.linear_pattern import LinearPattern, UnsupportedPattern

ATOMS = ("a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", r"\B", r"\.", r"\x61", "(?:a|b)", "(?i:A)", "()")
REPEATS = ("*", "+", "?", "{2}", "{1,3}", "{,2}", "{1,}", "*?", "??")
NAMES = ("", "a", "b", "ab", "ba", "aab", "abab", "quay.io/ab:1", "A.b", "a a", "aaaaaaaab", "b1_a")


def pattern(rng: random.Random, depth: int = 0) -> str:
    """Return a random pattern."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        group = depth < 3 and rng.random() < 0.3
        opening = rng.choice(("(", "(?:", f"(?P<x{rng.randrange(10**9)}>"))
        atom = f"{opening}{pattern(rng, depth + 1)})" if group else ""
        parts.append((atom or rng.choice(ATOMS)) + (rng.choice(REPEATS) if rng.random() < 0.3 else ""))
        if rng.random() < 0.15:
            parts.append("|")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(300))
def test_random_patterns_match_as_in_re(seed: int) -> None:
    text = pattern(random.Random(seed))
    try:
        expected = re.compile(text)
    except re.error:
        return
    compiled = LinearPattern(text)
    names = [name for name in NAMES if name or r"\B" not in text]  # in Go, unlike here, it matches an empty text
    assert [compiled.search(name) for name in names] == [bool(expected.search(name)) for name in names], text


@pytest.mark.parametrize(
    "text", [".*.*.*.*.*.*.*.*=", "(a*)*b$", "(a|a)*b$", "(a+)+$x", "a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)(.*)(.*)[^a]$"]
)
def test_time_is_linear(text: str) -> None:
    assert not BlockedImages((text,)).matches("a" * 20_000, "a" * 200)


@pytest.mark.parametrize("text", ["(?x)a", "(?L:a)", "(a{1000}){1000}", "((a{9}){99}){99}"])
def test_unsupported_patterns(text: str) -> None:
    with pytest.raises(UnsupportedPattern):
        LinearPattern(text)
