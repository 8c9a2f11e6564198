"""Tests of version precedence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.index.errors import GraphError
from opmkit.index.graph import precedence

ASCENDING = [
    *("", "0.0.0", "0.1.0-1", "0.1.0-2", "0.1.0-10", "0.1.0-a", "0.1.0-a.1", "0.1.0-a.b", "0.1.0", "0.1.0+1"),
    *("0.1.0+2", "0.1.0+10", "0.1.0+a", "0.1.0+a.1", "0.1.1-rc", "0.1.1", "0.2.0", "0.10.0", "1.0.0-0+5", "1.0.0"),
]


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)))
def test_order_of_versions(lower: str, higher: str) -> None:
    assert precedence(lower) < precedence(higher)


@pytest.mark.parametrize(
    "version", ["v1.0.0", "1.0", "1", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "1.2.3 ", "1.2.x", f"{2**64}.0.0"]
)
def test_rejects_invalid_versions(version: str) -> None:
    with pytest.raises(GraphError, match="cannot compare versions"):
        precedence(version)


NUMBERS = st.integers(0, 2**64 - 1)


@pytest.mark.slow
@given(st.tuples(NUMBERS, NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_order_of_random_releases(first: tuple[int, int, int], second: tuple[int, int, int]) -> None:
    keys = [precedence(".".join(map(str, numbers))) for numbers in (first, second)]
    assert (keys[0] < keys[1]) == (first < second)
