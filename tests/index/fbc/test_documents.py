"""The documents of a catalog's files, whatever their syntax: values, lines, duplicates, and what can't be read."""

from __future__ import annotations

import pytest

from opmkit.bundle.errors import InvalidDocument
from opmkit.index.fbc.documents import Document, read_documents


def read(raw: bytes) -> list[object]:
    """The documents as (line, value), errors as (line, "error")."""
    return [(one.line, one.value if isinstance(one, Document) else "error") for one in read_documents(raw)]


@pytest.mark.parametrize(
    ("raw", "documents"),
    [
        (b"", []),
        (b"# nothing\n", []),
        (b"---\n---\n\n---\n", []),
        (b"\xef\xbb\xbfschema: x\n", [(1, {"schema": "x"})]),
        (b"---\nschema: x\n--- # more\n# about y\n\nschema: z\n", [(2, {"schema": "x"}), (6, {"schema": "z"})]),
        (b"b: 1\na: {d: 2, c: 3}\n", [(1, {"a": {"c": 3, "d": 2}, "b": 1})]),
        (b"a: [1\n---\nb: 2\n", [(2, "error"), (3, {"b": 2})]),
        (b"text\n", [(1, "text")]),
        (b'\n{\n "b": 1, "a": 2\n}\n\n{\n "c": 3\n}', [(2, {"b": 1, "a": 2}), (6, {"c": 3})]),
        (b'{"a":1}{"b":2}\n {"c":\n3}', [(1, {"a": 1}), (1, {"b": 2}), (2, {"c": 3})]),
        (b'{"a": 1}\n{"b": }\n', [(1, {"a": 1}), (2, "error")]),
        (b'{"a": NaN}', [(1, "error")]),
        (b'{"a": "\xff"}', [(1, "error")]),
        (b"{" * 200_000, [(0, "error")]),
    ],
)
def test_documents_with_their_lines(raw: bytes, documents: list[object]) -> None:
    found = read(raw)
    if documents == [(0, "error")]:
        assert [value for _, value in found] == ["error"]  # type: ignore[misc]
    else:
        assert found == documents


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"---", [1]),
        (b"# a licence\n---\nschema: x\n", [1]),
        (b"schema: x\n---\n", []),
        (b"schema: x\n---\n# the end\n", [2]),
        (b"---\n---\nschema: x\n", [1]),
        (b"schema: x\n---\n---\nschema: y\n", []),
        (b"schema: x\n---\nnull\n---\nschema: y\n", [2]),
        (b'{"schema": "x"}\nnull\n', [2]),
    ],
)
def test_documents_without_content_as_the_reference_counts_them(raw: bytes, lines: list[int]) -> None:
    found = [one for one in read_documents(raw, empty=True) if isinstance(one, Document)]
    assert [one.line for one in found if one.value is None] == lines


def test_keys_of_yaml_mappings_are_in_order_and_those_of_json_stay() -> None:
    (yaml,) = read_documents(b"b: 1\na: 2\n")
    (json,) = read_documents(b'{"b": 1, "a": 2}')
    assert isinstance(yaml, Document)
    assert isinstance(json, Document)
    assert list(yaml.value) == ["a", "b"]  # type: ignore[arg-type]
    assert list(json.value) == ["b", "a"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"x: 1\n---\na: 1\nb: 2\na: 3\n", ("a", 5)),
        (b'{"b": {"a": 1, "a": 2}}', ("a", 0)),
        (b'{\n "b": {"a": 1, "a": 2}\n}\n{\n "c": 1\n}\n', ("a", 0)),
    ],
)
def test_keys_that_are_there_twice_are_told(raw: bytes, told: tuple[str, int]) -> None:
    found = [one for document in read_documents(raw) if isinstance(document, Document) for one in document.duplicates]
    assert [(one.key, one.line) for one in found] == [told]


def test_texts_that_look_like_keys_are_none() -> None:
    (document,) = read_documents(b'{"a": "{\\"b\\": 1, \\"b\\": 2}"}')
    assert isinstance(document, Document)
    assert document.duplicates == ()


def test_an_error_of_yaml_has_its_line_in_the_file() -> None:
    (error,) = (one for one in read_documents(b"a: 1\n---\nb: 2\nc: d: e\n") if isinstance(one, InvalidDocument))
    assert error.line == 4
