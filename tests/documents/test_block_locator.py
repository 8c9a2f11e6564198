"""Locations by indentation: those of the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents.block_locator import BlockLocator
from opmkit.documents.content import Content
from opmkit.documents.source_nodes import locate
from tests.kit.broken import BASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

MANIFEST = b"""\
---
# comment
kind: Demo
metadata:
  labels:  # comment
    a: "first
  b: second"
    c: |
      d: 1
       - e
spec:
- name: x
  args:
  - |-
    - a
  -   'b'
  - {c: d}

-
  name: y
"""
FRAGMENTS = [
    *("\n", " ", "  ", "\n  ", "\n- ", "- ", "-", "a: ", "\na: 1\n", "#", " # ", "'", '"', ":", "|\n", ">-\n", "? "),
    *(
        "{}",
        "{a: 1}",
        "[",
        "]",
        ",",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "---\n",
        "...\n",
        "\r",
        "\t",
        "\x85",
        "\u2028",
        "ä",
    ),
]


def paths(value: JsonValue, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of all values, and those of missing ones."""
    yield path
    yield (*path, "missing")
    yield (*path, 9)
    if isinstance(value, dict | list):
        for step, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(member, (*path, step))


def assert_equal(raw: bytes) -> int:
    """Compare all locations in a valid document with those of the parser, and return how many there are."""
    content = Content.read(raw)
    locator, count = BlockLocator(raw, content.value), 0
    for path in paths(content.value) if content.error is None else ():
        found = locator.locate(path)
        assert found in (None, locate(raw, path)), path
        count += found is not None
    return count


def test_manifests() -> None:
    assert sum(assert_equal(raw) for raw in BASE.values()) > 200


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ((), (3, 1)),
        (("kind",), (3, 1)),
        (("metadata", "labels", "a"), None),  # a line of a string has the indentation of the keys
        (("metadata", "name"), None),
        (("spec", 0), (12, 3)),
        (("spec", 0, "args", 1), (16, 7)),
        (("spec", 0, "args", 2, "c"), None),
        (("spec", 0, "name", "missing"), (12, 3)),
        (("spec", 1), None),
        (("spec", 2), (11, 1)),
        (("status",), (3, 1)),
    ],
)
def test_locations(path: FieldPath, location: tuple[int, int] | None) -> None:
    content = Content.read(MANIFEST)
    assert BlockLocator(MANIFEST, content.value).locate(path) == location
    assert content.locate(path) == locate(MANIFEST, path) == (location or locate(MANIFEST, path))


@given(st.data())
def test_mutants(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from([MANIFEST, *BASE.values()]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw)))
        end = start + data.draw(st.integers(0, 6))
        raw = raw[:start] + data.draw(st.sampled_from([*FRAGMENTS, ""])).encode() + raw[end:]
    assert_equal(raw)
