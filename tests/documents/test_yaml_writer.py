"""YAML in the format of sigs.k8s.io/yaml."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents import go_yaml
from opmkit.documents.yaml_writer import dump_yaml

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15) | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("yes", '"yes"'),
        ("1.0", '"1.0"'),
        ("", '""'),
        ("12:30", '"12:30"'),
        ("2024-01-01", '"2024-01-01"'),
        ("2024-13-01", "2024-13-01"),
        ("2024-01-01T10:00:00Z", '"2024-01-01T10:00:00Z"'),
        ("2024-01-01T10:00:00", "2024-01-01T10:00:00"),
        ("2024-01-01T10-00-00Z", "2024-01-01T10-00-00Z"),
        ("2024-01-01 10:00:00", '"2024-01-01 10:00:00"'),
        ("@at", "'@at'"),
        ("a: b", "'a: b'"),
        ("=", "="),
        ("it's", "it's"),
        ("two\nlines\n", "|\n  two\n  lines"),
        ("ends in blanks \n", '"ends in blanks \\n"'),
        ("x" * 50 + " " + "y" * 50, "x" * 50 + " " + "y" * 50),
        ("word " * 20 + "end", "word " * 15 + "word\n  " + "word " * 4 + "end"),
    ],
)
def test_yaml_strings(text: str, written: str) -> None:
    assert dump_yaml({"k": text}).decode() == f"k: {written}\n"


def test_yaml_keys_are_in_natural_order() -> None:
    keys = ["v10", "v9", "a", "B", "1", "", "true", "v2a", "v2-", "a01", "a1"]
    written = dump_yaml(dict.fromkeys(keys, 0)).decode()
    assert [line.partition(":")[0].strip('"') for line in written.splitlines()] == [
        "", "1", "B", "a", "a1", "a01", "true", "v2-", "v2a", "v9", "v10",
    ]  # fmt: skip


@pytest.mark.slow
@given(VALUES)
def test_yaml_round_trip(value: Any) -> None:
    assert go_yaml.load(dump_yaml({"value": value})) == {"value": value}


def test_final_line_breaks_end_the_document() -> None:
    assert dump_yaml({"k": "a\n\n"}).decode() == "k: |+\n  a\n\n"
    assert dump_yaml({"k": "etc..."}).decode() == "k: etc...\n"
