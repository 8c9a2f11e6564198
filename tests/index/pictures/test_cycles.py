"""Cycles of directed graphs."""

from __future__ import annotations

import pytest

from opmkit.index.pictures.cycles import find_cycles


@pytest.mark.parametrize(
    ("targets", "cycles"),
    [
        ([], {}),
        ([[1], [2], []], {}),
        ([[1], [1]], {1: 0}),
        ([[1], [2], [1, 3], [4], [3]], {1: 0, 2: 0, 3: 1, 4: 1}),
        ([[1], [2], [3], [4], [3, 5], []], {3: 0, 4: 0}),  # a node between cycles is in none of them
        ([[1], [0], [1], [2, 4], [3]], {0: 0, 1: 0, 3: 1, 4: 1}),
    ],
)
def test_cycles(targets: list[list[int]], cycles: dict[int, int]) -> None:
    assert find_cycles(targets) == cycles


def test_long_cycles_need_no_recursion() -> None:
    count = 20_000
    assert find_cycles([[(node + 1) % count] for node in range(count)]) == dict.fromkeys(range(count), 0)
