"""YAML decoding with the semantics of go-yaml."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents import go_yaml
from opmkit.documents.errors import DuplicateKey, InvalidDocument


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        *((word, True) for word in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]),
        *((word, False) for word in ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        ("0644", 420),
        ("0o644", 420),
        ("-0o7", -7),
        ("0x1F", 31),
        ("+0x1f", 31),
        ("0xbf", 191),
        ("0XB", 11),
        ("0b101", 5),
        ("-0B11", -3),
        ("1_000", 1000),
        ("1_", 1),
        ("+12", 12),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709551616.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("08", 8.0),
        ("1.0", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("1.5E-3", 0.0015),
        ("1e-400", 0.0),
    ],
)
def test_plain_scalars(scalar: str, value: Any) -> None:
    decoded: Any = go_yaml.load(f"a: {scalar}".encode())
    assert decoded == {"a": value}
    assert type(decoded["a"]) is type(value)


@pytest.mark.parametrize(
    "scalar",
    [
        "1:30",
        "12:30:45",
        "2020-01-01",
        "2020-01-01T00:00:00Z",
        "=",
        "<<",
        "tRUE",
        "yES",
        "nULL",
        "1e400",
        "0b2",
        "0o8",
        "0x",
        "0xg",
        "_1",
        "1.2.3",
        "1e",
        ".",
        ".e1",
        "--",
        "+",
        ".infinity",
        "0x1ffffffffffffffff",
        ".5_0",
        "v1",
        "1,000",
        "nan",
    ],
)
def test_strings_that_other_decoders_convert(scalar: str) -> None:
    assert go_yaml.load(f"a: {scalar}".encode()) == {"a": scalar}


@pytest.mark.parametrize("scalar", [".inf", "+.Inf", "-.INF", ".nan"])
def test_infinity_and_nan(scalar: str) -> None:
    decoded: Any = go_yaml.load(f"- {scalar}".encode())
    value = decoded[0]
    assert isinstance(value, float)
    assert not math.isfinite(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"0644"', "0644"),
        ("'yes'", "yes"),
        ("!!str 12", "12"),
        ('!!int "3"', 3),
        ("!!float 3", 3.0),
        ('!!bool "yes"', True),
        ('!!null ""', None),
        ("!!binary aGVsbG8=", "hello"),
        ("!!binary /w==", "\ufffd"),
        ("!local 12", "12"),
        ("! 12", "12"),
        ("!!timestamp 2020-01-01", "2020-01-01"),
        ("!!set {a, b}", {"a": None, "b": None}),
        ("|\n  a\n   b\n", "a\n b\n"),
        (">-\n  a\n  b\n", "a b"),
        ('"\\U0001F600\\x7F"', "\U0001f600\x7f"),
    ],
)
def test_tags_and_styles(text: str, value: Any) -> None:
    decoded: Any = go_yaml.load(f"a: {text}".encode())
    assert decoded == {"a": value}
    assert type(decoded["a"]) is type(value)


@pytest.mark.parametrize("text", ["!!int x", "!!float x", "!!bool 3", "!!null x", "!!binary '*'", "!!int 1.5"])
def test_values_that_do_not_match_their_tag_are_rejected(text: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        go_yaml.load(f"a:\n  b: {text}".encode())
    assert raised.value.located("f").startswith("f:2:6: ")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "1"),
        ("0x10", "16"),
        ("yes", "true"),
        ("off", "false"),
        ("1.50", "1.5"),
        ("1e6", "1e+06"),
        ("0.00001", "1e-05"),
        ("123456.789", "123456.79"),
        ("9223372036854775807", "9223372036854775807"),
        ("2020-01-01", "2020-01-01"),
        (".inf", ".inf"),
        (".nan", ".nan"),
    ],
)
def test_keys_become_strings(key: str, text: str) -> None:
    assert go_yaml.load(f"{key}: x".encode()) == {text: "x"}


@pytest.mark.parametrize("key", ["~", "[a]", "{a: b}", "9223372036854775808", "18446744073709551615"])
def test_other_keys_are_rejected(key: str) -> None:
    with pytest.raises(InvalidDocument, match="a key must be"):
        go_yaml.load(f"? {key}\n: x".encode())


def test_last_duplicate_key_wins() -> None:
    assert go_yaml.load(b"{a: 1, b: 2, a: 3}") == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\na: 4", [("a", 3, 1), ("a", 4, 1)]),
        ("x:\n- {b: 1, 'b': 2}\n- {b: 1}", [("b", 2, 10)]),
        ("1: a\n'1': b\n? &x 1\n: c", [("1", 2, 1), ("1", 3, 3)]),
        ("m: &m {a: 1, a: 2}\nn: *m", [("a", 1, 14)]),
        ("m: &m {a: 1}\nn:\n  <<: *m\n  a: 2\n  b: 1\n  b: 2", [("b", 6, 3)]),
    ],
)
def test_duplicate_keys_are_reported_with_their_locations(text: str, expected: list[tuple[str, int, int]]) -> None:
    duplicates: list[DuplicateKey] = []
    go_yaml.load(text.encode(), duplicates)
    assert duplicates == expected


def test_number_of_reported_duplicates_is_limited() -> None:
    duplicates: list[DuplicateKey] = []
    go_yaml.load(b"{" + b"a: 1, " * 10_000 + b"}", duplicates)
    assert len(duplicates) == go_yaml.MAX_DUPLICATES


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{<<: {a: 1}, b: 2}", {"a": 1, "b": 2}),
        ("{a: 1, <<: {a: 2}}", {"a": 2}),
        ("{<<: {a: 1}, a: 2}", {"a": 2}),
        ("{<<: [{a: 1}, {a: 2, b: 3}]}", {"a": 1, "b": 3}),
        ("{x: &x {a: 1}, z: {<<: *x, b: 2}}", {"x": {"a": 1}, "z": {"a": 1, "b": 2}}),
        ("{'<<': 1}", {"<<": 1}),
    ],
)
def test_merge_keys(text: str, value: Any) -> None:
    assert go_yaml.load(text.encode()) == value


@pytest.mark.parametrize("text", ["<<: 3", "<<: [1]", "a: &l [{b: 1}]\nc:\n  <<: *l"])
def test_only_mappings_can_be_merged(text: str) -> None:
    with pytest.raises(InvalidDocument, match="merge key"):
        go_yaml.load(text.encode())


def test_aliases() -> None:
    assert go_yaml.load(b"[&a [1], *a, &a 2, *a]") == [[1], [1], 2, 2]


@pytest.mark.parametrize(("text", "problem"), [("&a [*a]", "contains itself"), ("[*a]", "unknown anchor a")])
def test_invalid_aliases(text: str, problem: str) -> None:
    with pytest.raises(InvalidDocument, match=problem):
        go_yaml.load(text.encode())


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "--- # nothing", "%YAML 1.1\n---\n"])
def test_empty_document_is_null(text: str) -> None:
    assert go_yaml.load(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "location"),
    [
        (b"a: b\nc: d: e\n", "f:2:5: "),
        (b"a: b\n\tc: d\n", "f:2:1: "),
        (b"a: [b\nc: d\n", "f:2:2: "),
        (b'a: "b\n', "f:1:4: "),
        (b"a: b\nc: \xff\n", "f:2: "),
        (b"a: \x00", "f:1: "),
        (b"a: |\n  text\n@\n", "f:3:1: "),
    ],
)
def test_invalid_yaml_is_located(text: bytes, location: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        go_yaml.load(text)
    assert raised.value.located("f").startswith(location)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_limit(opening: str) -> None:
    with pytest.raises(InvalidDocument, match="200 levels"):
        go_yaml.load(opening.encode() * 100_000)


def test_nesting_up_to_the_limit() -> None:
    value = go_yaml.load(b"[" * 200 + b"]" * 200)
    for _ in range(199):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


@pytest.mark.parametrize("leaf", [b"x", b"[]", b"{}", b"''"])
def test_alias_bomb_is_rejected(leaf: bytes) -> None:
    levels = [b"a0: &a0 [%s]" % b",".join([leaf] * 9)]
    levels += [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)]
    with pytest.raises(InvalidDocument, match="added by aliases"):
        go_yaml.load(b"\n".join(levels))


def test_aliases_add_a_limited_amount() -> None:
    text = b"a: &a " + b"x" * 1000 + b"\nb: [" + b", ".join([b"*a"] * (go_yaml.MAX_ALIASED // 1001 + 1)) + b"]\n"
    with pytest.raises(InvalidDocument, match=r"^more than 8388608 values and characters added by aliases$"):
        go_yaml.load(text)
    go_yaml.load(text.replace(b"*a, ", b"", 1))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30))
def test_any_text_is_decoded_or_located(text: str) -> None:
    line = 1
    try:
        go_yaml.load(text.encode())
    except InvalidDocument as error:
        line = error.line
    assert line > 0
