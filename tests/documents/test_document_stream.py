"""Documents of JSON and YAML files: values, lines, duplicate keys and syntax errors."""

from __future__ import annotations

from io import BytesIO

import pytest

from opmkit.documents import MAX_BYTES, document_stream
from opmkit.documents.document_stream import Document, read_document_file, read_documents, read_settings
from opmkit.documents.errors import InvalidDocument


def read(raw: bytes) -> list[tuple[int, object]]:
    """Return documents as (line, value) and errors as (line, "error")."""
    return [
        (document.line, document.value if isinstance(document, Document) else "error")
        for document in read_documents(raw)
    ]


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
        (b"a: |\n  b\n---\na: |\n  b", [(1, {"a": "b\n"}), (4, {"a": "b\n"})]),
        (b"---\n...\na: 1\n---\nb: 2\n", [(5, {"b": 2})]),
        (b"a: 1\n...\nb: 2\n---\n...\nc: 3\n", [(1, {"a": 1}), (5, "error")]),
        (b"a: 1\r---\rb: 2\n", [(1, {"a": 1})]),
        (b" " * 4095 + b'{"a": 1}{"b": 2}', [(1, {"a": 1}), (1, {"b": 2})]),
        (b" " * 4096 + b'{"a": 1}{"b": 2}', [(1, {"a": 1})]),
        ('\u00a0\u2003{"a": 1}'.encode(), [(1, "error")]),
        (b'{"a": 1}\x0b{"b": 2}', [(1, {"a": 1}), (1, "error")]),
        (b'\n{\n "b": 1, "a": 2\n}\n\n{\n "c": 3\n}', [(2, {"b": 1, "a": 2}), (6, {"c": 3})]),
        (b'{"a":1}{"b":2}\n {"c":\n3}', [(1, {"a": 1}), (1, {"b": 2}), (2, {"c": 3})]),
        (b'{"a": 1}\n{"b": }\n', [(1, {"a": 1}), (2, "error")]),
        (b'{\n"a": 1\n}\n\n{"b": 2} {"c":\n3}\n{"d": }', [(1, {"a": 1}), (5, {"b": 2}), (5, {"c": 3}), (7, "error")]),
        (b'{\n"a": 1\n}\n{\n"b": "\xff"\n}\n', [(1, {"a": 1}), (5, "error")]),
        (b'{"a": NaN}', [(1, "error")]),
        (b'{"a": "\xff"}', [(1, "error")]),
    ],
)
def test_values_and_lines(raw: bytes, documents: list[tuple[int, object]]) -> None:
    assert read(raw) == documents


def test_deep_nesting_is_an_error() -> None:
    ((_, value),) = read(b"{" * 200_000)
    assert value == "error"


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
def test_empty_documents_are_counted_as_by_go_opm(raw: bytes, lines: list[int]) -> None:
    documents = [item for item in read_documents(raw, include_empty=True) if isinstance(item, Document)]
    assert [document.line for document in documents if document.value is None] == lines


def test_yaml_keys_are_sorted_and_json_keys_are_not() -> None:
    (yaml,) = read_documents(b"b: 1\na: 2\n")
    (json,) = read_documents(b'{"b": 1, "a": 2}')
    assert isinstance(yaml, Document)
    assert isinstance(json, Document)
    assert list(yaml.value) == ["a", "b"]  # type: ignore[arg-type]
    assert list(json.value) == ["b", "a"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "duplicate"),
    [
        (b"x: 1\n---\na: 1\nb: 2\na: 3\n", ("a", 5)),
        (b'{"b": {"a": 1, "a": 2}}', ("a", 0)),
        (b'{\n "b": {"a": 1, "a": 2}\n}\n{\n "c": 1\n}\n', ("a", 0)),
    ],
)
def test_duplicate_keys(raw: bytes, duplicate: tuple[str, int]) -> None:
    documents = [document for document in read_documents(raw) if isinstance(document, Document)]
    assert [(item.key, item.line) for document in documents for item in document.duplicates] == [duplicate]


def test_strings_that_look_like_keys_are_not_duplicates() -> None:
    (document,) = read_documents(b'{"a": "{\\"b\\": 1, \\"b\\": 2}"}')
    assert isinstance(document, Document)
    assert document.duplicates == ()


def test_yaml_errors_have_the_line_in_the_file() -> None:
    (error,) = (item for item in read_documents(b"a: 1\n---\nb: 2\nc: d: e\n") if isinstance(item, InvalidDocument))
    assert error.line == 4


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 1000])
@pytest.mark.parametrize("blanks", [8, 100])
@pytest.mark.parametrize(
    "raw",
    [
        b'{\n"a": 1\n}\n{\n"b": "}\\n{"\n}\n\n  {\n"c": [{\n"d": 1\n}\n]\n}\n',
        b'\xef\xbb\xbf\n\n{\n"a": 1\n}\n\n\n\n\n\n\n\n{"b": 1} {\n"c": 1\n}\n{\n"d": }',
        b'{\n"a": 1\n}\n{\n"b": "\xff"\n}\n',
        b"\n\n\n---\na: 1\n---\nb: 1\n",
        b"   \n",
        b"",
        b"{",
    ],
)
def test_chunks_of_a_file_do_not_matter(raw: bytes, blanks: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(read_documents(raw, include_empty=True))
    monkeypatch.setattr(document_stream, "_CHUNK_SIZE", size)
    monkeypatch.setattr(document_stream, "_MAX_BLANKS", blanks)
    found = list(read_document_file(BytesIO(raw), include_empty=True))
    assert list(map(str, found)) == list(map(str, expected))


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"", None),
        (b"a: 1\n---\n...\n# end\n", {"a": 1}),
        (b"{a: {b: 1}}", {"a": {"b": 1}}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    ],
)
def test_settings(raw: bytes, value: object) -> None:
    assert read_settings(raw) == value


@pytest.mark.parametrize(
    ("raw", "line", "problem"),
    [
        (b"a: 1\n---\nb: 2\n", 3, "several documents"),
        (b"a: 1\n...\n---\n''\n---\n[]\n", 6, "several documents"),
        (b"a:\n  b: 1\n  b: 2\n", 3, "duplicate key 'b'"),
        (b'{"a": 1, "a": "\\ud83d\\ude00"}', 0, "duplicate key 'a'"),
        (b'{"a": "\\ud83d\\ude00"}{}', 1, "escape"),
        (b"a: 1\n...\n]\n", 3, "several documents"),
        (b" " * (MAX_BYTES + 1), 0, "exceed the limit"),
    ],
)
def test_nothing_in_settings_is_ignored(raw: bytes, line: int, problem: str) -> None:
    with pytest.raises(InvalidDocument, match=problem) as raised:
        read_settings(raw)
    assert raised.value.line == line
