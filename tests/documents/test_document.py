"""Decoding of the first document of a file."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.documents.document import read_document
from opmkit.documents.errors import InvalidDocument


@pytest.mark.parametrize(
    ("content", "value", "is_json", "has_more"),
    [
        (b"a: 1\n", {"a": 1}, False, False),
        (b"---\na: 1\n", {"a": 1}, False, False),
        (b"a: |\n  b", {"a": "b\n"}, False, False),
        (b"a: |\r\n  b\r\n\r\n  c", {"a": "b\n\nc\n"}, False, False),
        (b"--- # first\na: 1\n--- # second\nb: 2\n", {"a": 1}, False, True),
        (b"a: 1\n---\n# nothing\n\n", {"a": 1}, False, False),
        (b"a: 1\r\n---\r\nb: 2\r\n", {"a": 1}, False, True),
        (b"# only a remark\n---\na: 1\n", None, False, True),
        (b"\n---\na: 1\n", None, False, True),
        (b"---\n---\na: 1\n", None, False, True),
        (b"", None, False, False),
        (b"a: 1\n...\nb: 2\n", {"a": 1}, False, False),
        (b'{"a": 1.0, "a": 0644}', None, True, False),
        (b' \n{"a": [true, "\\u00e9"]}\n', {"a": [True, "é"]}, True, False),
        (b'{"a": 1}\n{"b": 2}', {"a": 1}, True, True),
        (b" " * 30 + b'{"a": 1}', {"a": 1}, False, False),
        (b'{"\\udc00": ["\\ud800x", "\\ud83d\\ude00", 1]}', {"\ufffd": ["\ufffdx", "\U0001f600", 1]}, True, False),
    ],
)
def test_first_document(content: bytes, value: Any, is_json: bool, has_more: bool) -> None:
    if is_json and value is None:
        with pytest.raises(InvalidDocument):
            read_document(content)
        return
    document = read_document(content)
    assert (document.value, document.is_json, document.has_more) == (value, is_json, has_more)


@pytest.mark.parametrize("separator", [b"--- |", b"---\x20x", b"---{a: 1}", b"----"])
def test_text_after_a_separator_is_rejected(separator: bytes) -> None:
    with pytest.raises(InvalidDocument) as raised:
        read_document(b"a: 1\n" + separator + b"\nb: 2\n")
    assert raised.value.located("f").startswith("f:2:4: ")


@pytest.mark.parametrize(
    ("content", "location"),
    [
        (b'{"a": 1,\n "b" 2}', "f:2:6: "),
        (b"{a: 1}", "f:1:2: "),
        (b'{"a": NaN}', "f: "),
        (b'{"a": "\xff"}', "f: "),
        (b'{"a":' * 100_000, "f: "),
    ],
)
def test_invalid_json_is_located(content: bytes, location: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        read_document(content)
    assert raised.value.located("f").startswith(location)


def test_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.documents.document.MAX_BYTES", 10)
    with pytest.raises(InvalidDocument, match="11 bytes"):
        read_document(b"a: 12345678")
