"""Escaping of untrusted text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.core.errors import OpmkitError
from opmkit.core.escape import code, escape_json, escape_line, escape_lines, escape_yaml, needs_quotes, without_logins
from opmkit.core.hints import Hint
from opmkit.documents.yaml_writer import dump_documents, dump_yaml

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue

BIDI = [chr(point) for point in (0x202A, 0x202E, 0x2066, 0x2069, 0x200E, 0x200F, 0x61C)]
IGNORABLE = [chr(point) for point in (0x34F, 0x115F, 0x1160, 0x3164, 0xFE00, 0xFFA0, 0xE0100, 0xE01EF)]
INVISIBLE = [*IGNORABLE, "\u200b", "\u200d", "\u2060", "\ufeff", "\xad", "\u180e", "\U000e0041"]
COMMANDS = ["::error::x", " \t::set-output name=a::b", "##[error]x", "a ##[add-mask]x", "##vso[task.complete]x"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("::error::a", r"\x3a:error::a"),
        ("  ::error::a", r"  \x3a:error::a"),
        ("a ::error::b", "a ::error::b"),
        (":a", ":a"),
        ("a##[error]b ##[group]", r"a\x23#[error]b \x23#[group]"),
        ("##vso[task]##teamcity[a]", r"\x23#vso[task]\x23#teamcity[a]"),
        ("## a", "## a"),
        ("\u202e\x1b", r"\u202e\x1b"),
        ("a\u034f\u3164\ufe0f\U000e0100", r"a\u034f\u3164\ufe0f\U000e0100"),
        ("\u2764\ufe0f 1\ufe0f", "\u2764\ufe0f 1\ufe0f"),
        ("see https://bob:secret@host/a@b", "see https://host/a@b"),
    ],
)
def test_lines(text: str, escaped: str) -> None:
    assert escape_line(text) == escaped
    assert escape_lines(f"a\n{text}") == f"a\n{escaped}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://u:p@h, https://t@h:1/x", "http://h, https://h:1/x"),
        ("http://u:p@q@h/", "http://h/"),
        ("https://h/image@sha256:1", "https://h/image@sha256:1"),
        ("a@b://c", "a@b://c"),
        ("https://h?mail=a@b", "https://h?mail=a@b"),
        ("http://user:a/pw@h:9/x", "http://h:9/x"),
        ("docker://user:a#pw@h/x:1", "docker://h/x:1"),
        ("(dask://user:a?p/w@h)", "(dask://h)"),
        ("http://user:a pw@h/x", "http://h/x"),
        ("user:S3cretPw@127.0.0.1:9/x/y:1: failed", "127.0.0.1:9/x/y:1: failed"),
        ("user:a/pw@h/x", "h/x"),
        ("//user:pw@h", "//h"),
        ("http:/user:pw@h", "http:/h"),
        ("http:///user:pw@h", "http:///h"),
        ("'user:pw@h/x@sha256:1'", "'h/x@sha256:1'"),
        ("h:5000/x:1@sha256:1, https://h:1/x@sha256:1", "h:5000/x:1@sha256:1, https://h:1/x@sha256:1"),
        ("mail: bob@example.com", "mail: bob@example.com"),
        ('{"mail":"bob@example.com"}', '{"mail":"bob@example.com"}'),
        ("https://h:5000 is down: bob@example.com", "https://h:5000 is down: bob@example.com"),
        ("pkg:golang/a@v1.0.0", "pkg:golang/a@v1.0.0"),
        ("git@github.com:a/b", "git@github.com:a/b"),
    ],
)
def test_logins(text: str, expected: str) -> None:
    assert without_logins(text) == expected
    error = OpmkitError(text, hint=Hint("use {}", text), details=[text])
    assert error.lines == (expected, expected)
    assert error.to_dict() == {"message": f"{expected}\n{expected}", "hint": f"use {expected}"}


@pytest.mark.parametrize("text", [*BIDI, *INVISIBLE, "\x7f", "\x9b", *COMMANDS, "a\n::error::b", "é ☃ a::b"])
def test_json_and_yaml_have_the_same_values(text: str) -> None:
    value: dict[str, JsonValue] = {text: [text, {"a": f"x{text}y" * 30}], "b": "plain"}
    encoded = escape_json(json.dumps(value, ensure_ascii=False).encode())
    assert json.loads(encoded) == value
    for document in (dump_yaml(value).decode(), dump_documents([value], explicit_start=False)):
        assert yaml.safe_load(document) == value
        for output in (document, encoded.decode()):
            lines = output.split("\n")
            assert not [char for char in (*BIDI, *INVISIBLE, "\x7f", "\x9b") if char in output]
            assert not [line for line in lines if line.lstrip().startswith("::") or "##[" in line or "##vso[" in line]


def test_ordinary_yaml_is_not_changed() -> None:
    value: dict[str, JsonValue] = {"text": "é ☃ 日本\xa0a::b # c\n- d", "long": "word " * 40}
    assert not any(map(needs_quotes, map(str, value.values())))
    assert dump_yaml(value) == escape_yaml(dump_yaml(value).decode()).encode()
    assert "\\" not in dump_yaml(value).decode()


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ""),
        ("a`b", "`` a`b ``"),
        ("a|b", r"`a\|b`"),
        (r"\|![](http://h)", r"`\\x7c![](http://h)`"),
        (r"a\\|b", r"`a\\\x7cb`"),
    ],
)
def test_code(text: str, quoted: str) -> None:
    assert code(text) == quoted
