"""Splitting of JSON text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents.json_value import compact, elements, members

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


def test_compact_keeps_numbers_keys_and_escapes() -> None:
    assert (
        compact(' { "b" : 1.0e3 ,\n"a":"\\u00e9 <&> \\" x" } ')
        == '{"b":1.0e3,"a":"\\u00e9 \\u003c\\u0026\\u003e \\" x"}'
    )


def test_elements_and_members() -> None:
    assert elements(' [ {"a" : 1.0} , 2 ,"x,]" ]') == ['{"a" : 1.0}', "2", '"x,]"']
    assert members('{ "a" : [1 , 2] , "b\\"" :"}", "a": 3 }') == {"a": "3", 'b"': '"}"'}
    assert elements("[]") == elements("null") == []
    assert members("{}") == members("null") == {}


@pytest.mark.parametrize("text", ["", "nonsense", "[1", "[1] 2", "{}", "3", "[1,]"])
def test_other_text_than_a_list_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        elements(text)


@pytest.mark.slow
@given(_JSON, st.sampled_from([None, 1, 3]))
def test_compact_keeps_the_value(value: object, indent: int | None) -> None:
    assert json.loads(compact(json.dumps(value, indent=indent))) == value


@pytest.mark.slow
@given(st.lists(_JSON), st.dictionaries(st.text(), _JSON))
def test_parts_have_the_same_values(items: list[object], mapping: dict[str, object]) -> None:
    assert [json.loads(part) for part in elements(json.dumps(items, indent=2))] == items
    assert {name: json.loads(part) for name, part in members(json.dumps(mapping, indent=2)).items()} == mapping
