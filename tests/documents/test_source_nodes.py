"""Node graphs of documents: positions of values in YAML and JSON."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from opmkit.documents.errors import InvalidDocument
from opmkit.documents.source_nodes import compose_document, find_node, nearest_node

YAML = """\
# ü€😀
a: &x !!str quay.io/ü:1 # comment
b:
- "q\\x41"
- 'it''s'
c: {d: [x, y]}
e: *x
base: &base {f: 1}
merged:
  <<: *base
merged_list:
  <<: [*base]
"""

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (("a",), "&x !!str quay.io/ü:1"),
        (("b", 0), '"q\\x41"'),
        (("b", 1), "'it''s'"),
        (("c",), "{d: [x, y]}"),
        (("c", "d", 1), "y"),
        (("e",), "&x !!str quay.io/ü:1"),
        (("merged", "f"), "1"),
        (("merged_list", "f"), "1"),
    ],
)
def test_positions_in_yaml(path: tuple[str | int, ...], source: str) -> None:
    node = find_node(compose_document(YAML, is_json=False), path)
    assert node is not None
    assert YAML[node.start_mark.index : node.end_mark.index] == source


@pytest.mark.parametrize("path", [("z",), ("a", "b"), ("b", 2), ("b", "c"), ("merged", "z"), (0,)])
def test_missing_paths(path: tuple[str | int, ...]) -> None:
    assert find_node(compose_document(YAML, is_json=False), path) is None


def test_nearest_node_is_a_parent() -> None:
    root = compose_document(YAML, is_json=False)
    assert nearest_node(root, ("b", 7, "name")) is find_node(root, ("b",))
    assert nearest_node(root, ("z",)) is root


@given(JSON_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
@settings(max_examples=60)
def test_json_nodes_have_the_text_of_their_values(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps({"x": value}, indent=indent, ensure_ascii=ascii_only)
    root = compose_document(f"\n{text}\n", is_json=True)
    check(f"\n{text}\n", root, {"x": value})


def check(text: str, node: yaml.Node, value: object) -> None:
    assert json.loads(text[node.start_mark.index : node.end_mark.index]) == value
    if isinstance(value, dict):
        assert isinstance(node, yaml.MappingNode)
        assert len(node.value) == len(value)
        for (_, child), (_, item) in zip(node.value, value.items(), strict=True):
            check(text, child, item)
    if isinstance(value, list):
        assert isinstance(node, yaml.SequenceNode)
        for child, item in zip(node.value, value, strict=True):
            check(text, child, item)


def test_deeply_nested_json_is_an_error() -> None:
    with pytest.raises(InvalidDocument, match="levels of nesting"):
        compose_document("[" * 300 + "]" * 300, is_json=True)


def test_an_empty_document_is_an_error() -> None:
    with pytest.raises(InvalidDocument, match="empty document"):
        compose_document("# nothing\n", is_json=False)
