"""JSON in the encoding of Go's encoding/json."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents.json_value import UINT64, encode, float_text, go_float

_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab<é"), inner), max_leaves=20)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}'),
        ({"é": 1, "z": 2, "A": 3}, '{"A":3,"z":2,"é":1}'),
        ("<a&b>", '"\\u003ca\\u0026b\\u003e"'),
        ("\u2028\u2029", '"\\u2028\\u2029"'),
        ("é日\x7f", '"é日\x7f"'),
        ('"\\/\n', '"\\"\\\\/\\n"'),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (2**63, "9223372036854776000"),
        (-(2**63), "-9223372036854775808"),
        (1234567890123456789.0, "1234567890123456800"),
        ([{"a": 2.50}], '[{"a":2.5}]'),
    ],
)
def test_encode(value: Any, text: str) -> None:
    assert encode(value).decode() == text


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "\ud800", {"a": [math.inf]}])
def test_values_without_a_json_equivalent_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError):
        encode(value)


def test_unsigned_integers() -> None:
    assert encode([2**64 - 1, 2**63, -1], UINT64) == b"[18446744073709551615,9223372036854775808,-1]"


@pytest.mark.slow
@given(_VALUES)
def test_values_survive_a_round_trip(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_a_round_trip(value: float) -> None:
    assert float(go_float(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_text_has_single_precision(value: float) -> None:
    text = float_text(value)
    assert math.isclose(float(text), value, rel_tol=1e-7, abs_tol=1e-45)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.10, "4.1"),
        (150.0, "150"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (0.0001, "0.0001"),
        (-0.0, "-0"),
        (1e300, ".inf"),
    ],
)
def test_float_text(value: float, text: str) -> None:
    assert float_text(value) == text
