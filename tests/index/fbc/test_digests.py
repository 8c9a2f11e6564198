"""Digests of JSON values."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.fbc.digests import value_digest


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("extra", [1, 1 << 80, "\ud800", nested(5000)], ids=["plain", "integer", "text", "depth"])
def test_equal_values_have_equal_digests(extra: Any) -> None:
    assert value_digest({"a": extra, "b": [1, "x"]}) == value_digest({"b": [1, "x"], "a": extra})
    values = [[extra, 1], [1, extra, 1], [[extra], 1], {"a": extra}, {"b": extra}, ["a", extra], [[extra, 1], []]]
    assert len({value_digest(value) for value in values}) == len(values)


def test_huge_integers_differ() -> None:
    assert value_digest(1 << 80) != value_digest((1 << 80) + 1)
